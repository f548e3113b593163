"""What is shown to servers: found, kept fresh, and exchanged when a server refuses it."""

import asyncio
import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio

from toolgate.base.ids import new_id, utc_now, utc_text_of
from toolgate.base.lazy_loading import load
from toolgate.errors import (
    InvalidAnswerError,
    LoginNeededError,
    StoreError,
    UnreachableError,
)
from toolgate.security.credentials.subject import EVERYBODY, describe_subject, key_of, subject_of
from toolgate.security.credentials.vault import DecryptedCredential, Vault
from toolgate.store import CredentialKey
from toolgate.types import Caller, Json, ServerSpec, json_object

__all__ = [
    "ConnectionCredential",
    "CredentialProvider",
    "current_values",
    "origin_of",
    "public_details",
    "with_tokens",
]

log = logging.getLogger(__name__)

_LEASE_S = 30.0
_LOOK_AGAIN_S = 0.05
_EARLY_S = 60.0
_EARLY_SHARE = 0.2
_CALLERS = 10_000
_SAVES = 3
_INSUFFICIENT = re.compile(r'error="?insufficient_scope')
_SCOPE = re.compile(r'scope="([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class _Token:
    """A token that is not stored, since it can be had again at any time."""

    text: str
    due_at: float


class CredentialProvider:
    """Shows each server what belongs to it."""

    def __init__(
        self,
        vault: Vault,
        outbound: Callable[[], Any],
        *,
        is_local: Callable[[], bool],
        login_url: Callable[[str, str], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make one.

        Args:
            vault: What is stored.
            outbound: Gives the `Outbound` of the gateway, which is loaded only then.
            is_local: Whether whoever calls is the person at this machine.
            login_url: The page where a server and a subject log in; empty: there is none.
            clock: Seconds since 1970.
        """
        self.vault = vault
        self.clock = clock
        self._outbound = outbound
        self._is_local = is_local
        self._login_url = login_url
        self._oauth: Any = None
        self._name = new_id()
        self._renewing: dict[CredentialKey, asyncio.Task[str]] = {}
        self._own: dict[tuple[str, str], _Token] = {}
        self._getting: dict[tuple[str, str], asyncio.Task[_Token]] = {}
        self._callers: OrderedDict[str, str] = OrderedDict()
        self.wanted_scopes: dict[tuple[str, str], str] = {}
        """Scopes that a server missed, by server and subject, for the next login."""

    async def oauth(self) -> Any:
        """The client of authorization servers, loaded with its library when it is first needed."""
        if self._oauth is None:
            module = await load("toolgate.security.credentials.oauth")
            self._oauth = module.OAuthClient(self._outbound())
        return self._oauth

    def note(self, spec: ServerSpec, caller: Caller) -> str:
        """Whose credential a call shows; remembers the caller's token where it is exchanged."""
        subject = subject_of(spec, caller)
        if spec.credentials.type == "token_exchange" and caller.credential:
            self._callers[subject] = caller.credential
            self._callers.move_to_end(subject)
            if len(self._callers) > _CALLERS:
                self._callers.popitem(last=False)
        return subject

    # What wires ask

    async def headers(self, spec: ServerSpec, subject: str) -> Mapping[str, str]:
        """Headers for the next request.

        Raises:
            LoginNeededError: There is nothing to show, and the settings want something.
            UnreachableError: The authorization server does not answer.
        """
        own = spec.credentials
        if own.type == "client_credentials":
            return _bearer(await self._own_token(spec))
        if own.type == "token_exchange":
            return _bearer(await self._exchanged(spec, subject))
        kept = await self._find(spec, subject)
        if kept is None:
            if own.type == "oauth" or own.headers:
                raise self.login_needed(spec, subject)
            return {}
        if kept.secret.get("form") == "static":
            return {str(name): str(value) for name, value in kept.secret["headers"].items()}
        if kept.secret.get("ended"):
            raise self.login_needed(spec, _subject_of(kept), ended=str(kept.secret["ended"]))
        if self._is_due(kept.secret):
            return _bearer(await self._renewed(spec, kept.key, used=""))
        return _bearer(str(kept.secret["access_token"]))

    async def environment(self, spec: ServerSpec, subject: str) -> Mapping[str, str]:
        """Variables for a process that is about to be started; raises as `headers`."""
        kept = await self._find(spec, subject)
        if kept is None or kept.secret.get("form") != "static":
            if spec.credentials.env:
                raise self.login_needed(spec, subject)
            return {}
        return {str(name): str(value) for name, value in kept.secret["env"].items()}

    async def refused(
        self,
        spec: ServerSpec,
        subject: str,
        *,
        shown: Mapping[str, str],
        status: int,
        challenge: str,
    ) -> bool:
        """Whether a request that was refused is worth sending once more.

        Raises:
            LoginNeededError: Only a person can help.
            UnreachableError: The authorization server does not answer.
        """
        used = shown.get("authorization", "").removeprefix("Bearer ")
        lacks_scope = status == 403 and _INSUFFICIENT.search(challenge) is not None
        if status != 401 and not lacks_scope:
            return False
        if spec.credentials.type in {"client_credentials", "token_exchange"}:
            return status == 401 and await self._is_other_token(spec, subject, used)
        kept = await self._find(spec, subject)
        if kept is None:
            if shown or not _is_bearer(challenge) or _has_own(spec):
                return False
            raise self.login_needed(spec, subject)
        if lacks_scope:
            found = _SCOPE.search(challenge)
            scope = found[1] if found else ""
            self.wanted_scopes[spec.name, _subject_of(kept)] = scope
            raise self.login_needed(spec, _subject_of(kept), scope=scope or "more")
        if kept.secret.get("form") == "static":
            raise self.login_needed(spec, _subject_of(kept), refused=True)
        renewed = await self._renewed(spec, kept.key, used=used or "-")
        return renewed != used

    # Finding

    async def _find(self, spec: ServerSpec, subject: str) -> DecryptedCredential | None:
        kept = await self.vault.get(key_of(spec.name, subject))
        if kept is None and subject == EVERYBODY and spec.credentials.per != "server":
            kept = await self._of_anybody(spec)
        if kept is None or kept.secret.get("origin") not in {None, origin_of(spec)}:
            return None  # it was got for another address
        return kept

    async def _of_anybody(self, spec: ServerSpec) -> DecryptedCredential | None:
        """One with which the server tells what it offers, where each has one of their own."""
        rows = await self.vault.all(spec.name)
        good = [row for row in rows if row.shown.get("state") != "ended"]
        for row in sorted(good, key=lambda row: str(row.shown["updated_at"]), reverse=True):
            if kept := await self.vault.get(row.key):
                return kept
        return None

    def login_needed(
        self,
        spec: ServerSpec,
        subject: str,
        *,
        ended: str = "",
        refused: bool = False,
        scope: str = "",
    ) -> LoginNeededError:
        """The error that asks a person to log in."""
        whose = f" of {describe_subject(subject)}" if subject else ""
        server = f"server {spec.name!r}"
        if ended:
            failed = (
                f"The login{whose} at {server} has ended: its authorization server does not renew"
                f" it ({ended})."
            )
        elif refused:
            failed = f"The {server} does not accept what was given{whose} any more."
        elif scope:
            failed = f"The login{whose} at {server} does not allow this: it lacks {scope!r:.200}."
        else:
            failed = f"The {server} wants a login{whose}, and there is none."
        is_theirs = spec.credentials.per == "user" and subject != EVERYBODY
        url = self._login_url(spec.name, subject) if is_theirs or self._is_local() else ""
        command = f"toolgate servers login {spec.name}"
        if spec.credentials.headers or spec.credentials.env:
            command = f"toolgate credentials set {spec.name}"
        hint = f"Run: {command}"
        if url:
            hint = f"Open {url} with a browser, or run: {command}"
        elif not is_theirs and not self._is_local():
            hint = f"Whoever looks after the gateway has to run: {command}"
        return LoginNeededError(failed, server=spec.name, url=url, hint=hint)

    # Renewing what is stored

    def _is_due(self, secret: Json) -> bool:
        expires_at = secret.get("expires_at")
        if not isinstance(expires_at, (int, float)):
            return False
        early_s = min(_EARLY_S, _EARLY_SHARE * float(secret.get("lifetime_s") or 0))
        return self.clock() >= expires_at - early_s

    async def _renewed(self, spec: ServerSpec, key: CredentialKey, *, used: str) -> str:
        """A fresh token; whoever needs one meanwhile waits for the same.

        The work is in a task of its own: a caller who goes away must not leave the authorization
        server with a token given out that nobody keeps.
        """
        task = self._renewing.get(key)
        if task is None:
            task = asyncio.create_task(self._renew(spec, key, used), name="toolgate-renew")
            self._renewing[key] = task
            task.add_done_callback(lambda done: self._over(key, done))
        return await asyncio.shield(task)

    def _over(self, key: CredentialKey, task: "asyncio.Task[str]") -> None:
        self._renewing.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen, also when nobody waits any more

    async def _renew(self, spec: ServerSpec, key: CredentialKey, used: str) -> str:
        subject = key.subject
        while True:
            kept = await self.vault.get(key, fresh=True)
            if kept is None:
                raise self.login_needed(spec, subject)
            if kept.secret.get("ended"):
                raise self.login_needed(spec, subject, ended=str(kept.secret["ended"]))
            token = str(kept.secret["access_token"])
            if token != used and not self._is_due(kept.secret):
                return token  # another process was first
            if not kept.secret.get("refresh_token"):
                if not used and self.clock() < float(kept.secret["expires_at"]):
                    return token
                raise await self._end(spec, kept, "there is nothing to renew it with")
            until = utc_text_of(self.clock() + _LEASE_S)
            if await self.vault.lease(key, self._name, until, utc_text_of(self.clock())):
                break
            await anyio.sleep(_LOOK_AGAIN_S)
        # It may have been renewed between the look and the lease.
        kept = await self.vault.get(key, fresh=True) or kept
        token = str(kept.secret.get("access_token") or "")
        if token and token != used and not self._is_due(kept.secret):
            return token
        try:
            return await self._ask_for_fresh(spec, kept)
        except UnreachableError:
            await self.vault.lease(key, self._name, "", utc_now())
            if not used and self.clock() < float(kept.secret.get("expires_at") or 0):
                log.warning("login not renewed", extra={"server": spec.name})
                return token
            raise

    async def _ask_for_fresh(self, spec: ServerSpec, kept: DecryptedCredential) -> str:
        module = await load("toolgate.security.credentials.oauth")
        oauth = await self.oauth()
        secret = kept.secret
        try:
            fresh = await oauth.refresh(
                await self.place(spec, secret),
                refresh_token=str(secret["refresh_token"]),
                resource=str(secret.get("resource") or ""),
                scopes=str(secret.get("scope") or ""),
            )
        except module.GrantRefusedError as error:
            raise await self._end(spec, kept, error.reason) from error
        renewed = with_tokens(secret, fresh, self.clock())
        for _ in range(_SAVES):
            try:
                if await self.vault.save(
                    kept.key,
                    renewed,
                    public_details(renewed, kept.shown),
                    over=kept.version,
                    quietly=True,
                ):
                    break
                current = await self.vault.get(kept.key, fresh=True)
            except StoreError as error:
                log.warning("login not written", extra={"server": spec.name, "error": str(error)})
                self.vault.hold(kept.key, renewed, kept)
                continue
            if current is None:
                raise self.login_needed(spec, kept.key.subject)
            if current.secret.get("refresh_token") != secret["refresh_token"]:
                return str(current.secret.get("access_token") or fresh.access_token)
            kept = current  # only encrypted anew
        log.info("login renewed", extra={"server": spec.name})
        return str(fresh.access_token)

    async def place(self, spec: ServerSpec, secret: Json) -> Any:
        """Where the tokens of a login come from."""
        module = await load("toolgate.security.credentials.oauth")
        outbound = self._outbound()
        way = module.way_of(spec)
        url = str(secret["token_url"])
        own = spec.credentials
        if own.token_url == url:
            reach = (await load("toolgate.security.outbound")).CONFIGURED
        else:
            reach = await outbound.reach_from(own.issuer or module.address_of(spec), way)
        return module.TokenEndpoint(
            token_url=url, client=secret["client"], reach=reach, way=way.elsewhere
        )

    async def _end(
        self, spec: ServerSpec, kept: DecryptedCredential, reason: str
    ) -> LoginNeededError:
        """Remember that a login is over, so that nobody tries it again; gives the error."""
        secret = {
            name: value
            for name, value in kept.secret.items()
            if name not in {"access_token", "refresh_token"}
        }
        secret["ended"] = reason
        shown = {**kept.shown, "state": "ended", "reason": reason}
        await self.vault.save(kept.key, secret, shown, over=kept.version)
        log.warning("login has ended", extra={"server": spec.name, "reason": reason})
        return self.login_needed(spec, kept.key.subject, ended=reason)

    # Tokens that are not stored

    async def _own_token(self, spec: ServerSpec) -> str:
        async def get() -> _Token:
            oauth = await self.oauth()
            place, resource, scopes = await self._token_place(spec)
            token = await oauth.of_client(
                place, resource=resource, scopes=scopes, audience=spec.credentials.audience
            )
            return self._token_of(token)

        return await self._once(spec, ("own", spec.name), get)

    async def _exchanged(self, spec: ServerSpec, subject: str) -> str:
        theirs = self._callers.get(subject, "")
        if not theirs:
            raise LoginNeededError(
                f"The server {spec.name!r} is shown a token that the caller's own is exchanged"
                " for, and the caller has none of an identity provider.",
                server=spec.name,
                hint="Come with a token of the identity provider that [authn.options.jwt] names.",
            )

        async def get() -> _Token:
            oauth = await self.oauth()
            place, resource, scopes = await self._token_place(spec)
            token = await oauth.exchange_token(
                place,
                subject_token=theirs,
                resource=resource,
                scopes=scopes,
                audience=spec.credentials.audience,
            )
            return self._token_of(token)

        mark = hashlib.sha256(theirs.encode(errors="surrogatepass")).hexdigest()
        return await self._once(spec, (f"{spec.name} {origin_of(spec)}", mark), get)

    async def _once(
        self, spec: ServerSpec, key: tuple[str, str], get: Callable[[], Awaitable[_Token]]
    ) -> str:
        known = self._own.get(key)
        if known is not None and self.clock() < known.due_at:
            return known.text
        task = self._getting.get(key)
        if task is None:

            async def work() -> _Token:
                return await get()

            task = asyncio.create_task(work(), name="toolgate-token")
            self._getting[key] = task
            task.add_done_callback(lambda _: self._getting.pop(key, None))
        module = await load("toolgate.security.credentials.oauth")
        try:
            token = await asyncio.shield(task)
        except module.GrantRefusedError as error:
            raise InvalidAnswerError(
                f"There is no token for server {spec.name!r}: {error.failed}",
                hint=f"Check [server.{spec.name}.credentials], and what the authorization server"
                " allows this client.",
            ) from error
        self._own[key] = token
        if len(self._own) > _CALLERS:
            del self._own[next(iter(self._own))]
        return token.text

    async def _is_other_token(self, spec: ServerSpec, subject: str, used: str) -> bool:
        """Forget a token that was refused; whether there is another now."""
        for key in [key for key, token in self._own.items() if token.text == used]:
            del self._own[key]
        shown = await self.headers(spec, subject)
        return shown.get("authorization") != f"Bearer {used}"

    async def _token_place(self, spec: ServerSpec) -> tuple[Any, str, str]:
        """Where tokens of the gateway itself come from, for whom, and with which scopes."""
        module = await load("toolgate.security.credentials.oauth")
        own = spec.credentials
        client = module.client_of(own)
        if own.token_url:
            reach = (await load("toolgate.security.outbound")).CONFIGURED
            place = module.TokenEndpoint(
                token_url=own.token_url,
                client=client,
                reach=reach,
                way=module.way_of(spec).elsewhere,
            )
            return place, module.address_of(spec), " ".join(own.scopes)
        found = await (await self.oauth()).find(spec)
        client, _ = await (await self.oauth()).client(
            own, found, redirects=(), name="", document=""
        )
        place = module.TokenEndpoint(
            token_url=str(found.metadata.token_endpoint),
            client=client,
            reach=found.reach,
            way=found.way,
        )
        return place, found.resource, " ".join(own.scopes)

    def _token_of(self, token: Any) -> _Token:
        lifetime_s = float(token.expires_in) if token.expires_in is not None else 300.0
        early_s = min(_EARLY_S, _EARLY_SHARE * lifetime_s)
        return _Token(text=token.access_token, due_at=self.clock() + lifetime_s - early_s)

    async def aclose(self) -> None:
        """Let a renewal that has begun be written; nobody gets its token a second time."""
        tasks = [*self._renewing.values(), *self._getting.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=_LEASE_S / 2)
        for task in tasks:
            task.cancel()


class ConnectionCredential:
    """What one connection shows of itself."""

    def __init__(self, desk: CredentialProvider, spec: ServerSpec) -> None:
        self._desk = desk
        self._spec = spec

    async def headers(self) -> Mapping[str, str]:
        """Headers for the next request."""
        return await self._desk.headers(self._spec, self._spec.subject)

    async def environment(self) -> Mapping[str, str]:
        """Variables for a process."""
        return await self._desk.environment(self._spec, self._spec.subject)

    async def refused(self, *, shown: Mapping[str, str], status: int, challenge: str) -> bool:
        """Whether a request that was refused is worth sending once more."""
        return await self._desk.refused(
            self._spec, self._spec.subject, shown=shown, status=status, challenge=challenge
        )


def origin_of(spec: ServerSpec) -> str | None:
    """What a credential belongs to: one that was got for another address is not shown."""
    url = spec.options.get("url")
    if not isinstance(url, str):
        return None
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def current_values(kept: DecryptedCredential | None, spec: ServerSpec) -> dict[str, dict[str, str]]:
    """Headers and variables of a credential as it is, without renewing it."""
    if kept is None or kept.secret.get("origin") not in {None, origin_of(spec)}:
        return {}
    if kept.secret.get("form") == "static":
        given = {"headers": kept.secret["headers"], "env": kept.secret["env"]}
        return {name: dict(values) for name, values in given.items() if values}
    token = kept.secret.get("access_token")
    return {"headers": _bearer(str(token))} if token else {}


def with_tokens(secret: Json, tokens: Any, now: float) -> Json:
    """A login with the tokens that came."""
    found = {
        **secret,
        "access_token": tokens.access_token,
        "refresh_token": tokens.refresh_token or secret.get("refresh_token"),
        "scope": tokens.scope or secret.get("scope") or "",
        "expires_at": None,
        "lifetime_s": None,
    }
    if tokens.expires_in is not None:
        found |= {"expires_at": now + tokens.expires_in, "lifetime_s": tokens.expires_in}
    found.pop("ended", None)
    return found


def public_details(secret: Json, before: Json) -> Json:
    """What may be shown of a login."""
    expires_at = secret.get("expires_at")
    return {
        **{name: value for name, value in before.items() if name not in {"reason", "updated_at"}},
        "form": "oauth",
        "state": "good",
        "issuer": secret.get("issuer") or "",
        "scopes": str(secret.get("scope") or "").split(),
        "expires_at": utc_text_of(expires_at) if expires_at is not None else None,
        "renews": bool(secret.get("refresh_token")),
    }


def _subject_of(kept: DecryptedCredential) -> str:
    return kept.key.subject


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _is_bearer(challenge: str) -> bool:
    return challenge.strip().lower().startswith("bearer") or "resource_metadata" in challenge


def _has_own(spec: ServerSpec) -> bool:
    """Whether its configuration has an Authorization of its own."""
    names = json_object(spec.options.get("headers"))
    return any(name.lower() == "authorization" for name in names)
