"""Provides credentials for servers: finds, renews and replaces them."""

import asyncio
import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, replace
from typing import Any

import anyio

from toolgate.base.ids import new_id, utc_now, utc_text_of
from toolgate.base.lazy_loading import load
from toolgate.errors import (
    InvalidAnswerError,
    LoginNeededError,
    StoreError,
    UnreachableError,
)
from toolgate.security.credentials.credential_values import (
    SECRETS,
    bearer_header,
    current_values,
    origin_of,
    public_details,
    stored_secrets,
    with_tokens,
    with_values,
)
from toolgate.security.credentials.login_links import LoginLinks
from toolgate.security.credentials.subject import EVERYBODY, describe_subject, key_of, subject_of
from toolgate.security.credentials.vault import DecryptedCredential, Vault
from toolgate.settings import find_secrets
from toolgate.store import CredentialKey
from toolgate.types import Caller, Json, ServerSpec, json_object

log = logging.getLogger(__name__)

# Seconds for which one process may renew a login. Chosen: longer than any response takes.
_LEASE_S = 30.0
# Seconds between checks whether another process has renewed it. Chosen.
_LOOK_AGAIN_S = 0.05
# A token is renewed this many seconds before it expires, but at most this share of its lifetime.
# Chosen: the token of a running call must not expire.
_EARLY_S = 60.0
_EARLY_SHARE = 0.2
"""Share of a token's lifetime; chosen: short-lived tokens are not renewed with every call."""
# Callers whose tokens are remembered for an exchange. Chosen.
_CALLERS = 10_000
# Attempts to save a renewed login. Chosen.
_SAVES = 3
_INSUFFICIENT = re.compile(r'error="?insufficient_scope')
_SCOPE = re.compile(r'scope="([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class _Token:
    """A token that is not stored, since it can be requested again at any time."""

    text: str
    due_at: float


class CredentialProvider:
    """Provides the credentials of each server."""

    def __init__(
        self,
        vault: Vault,
        outbound: Callable[[], Any],
        *,
        links: LoginLinks,
        is_local: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the provider.

        Args:
            vault: The stored credentials.
            outbound: Returns the `Outbound` of the gateway, which is loaded only then.
            links: Links to login pages.
            is_local: Whether every caller is the person at this machine.
            clock: Seconds since 1970.
        """
        self.vault = vault
        self.clock = clock
        self._outbound = outbound
        self._is_local = is_local
        self._links = links
        self._oauth: Any = None
        self._name = new_id()
        self._renewing: dict[CredentialKey, asyncio.Task[str]] = {}
        self._gateway_tokens: dict[tuple[str, str], _Token] = {}
        self._getting: dict[tuple[str, str], asyncio.Task[_Token]] = {}
        self._callers: OrderedDict[str, str] = OrderedDict()
        self.missing_scopes: dict[tuple[str, str], str] = {}
        """Scopes that a server asked for, by server and subject, for the next login."""

    async def oauth(self) -> Any:
        """Return the client of authorization servers, loaded with its library on first use."""
        if self._oauth is None:
            module = await load("toolgate.security.credentials.oauth")
            self._oauth = module.OAuthClient(self._outbound())
        return self._oauth

    def subject_for(self, spec: ServerSpec, caller: Caller) -> str:
        """Return whose credential a call uses; remember the caller's token if it is exchanged."""
        subject = subject_of(spec, caller)
        if spec.credentials.type == "token_exchange" and caller.credential:
            self._callers[subject] = caller.credential
            self._callers.move_to_end(subject)
            # The least recently used one is dropped; the caller's next call brings its token again.
            if len(self._callers) > _CALLERS:
                self._callers.popitem(last=False)
        return subject

    async def completed(self, spec: ServerSpec) -> ServerSpec:
        """Return a server with what is stored for it in its options, for its next connection.

        Raises:
            LoginNeededError: It refers to a secret that is not stored.
        """
        if spec.kind == "inprocess":
            return spec
        credential = await self._find(spec, spec.subject)
        # Headers are left out of the options: each request gets the current ones.
        is_static = credential is not None and credential.secret.get("form") == "static"
        values = current_values(credential, spec) if is_static else {}
        headers = values.pop("headers", {})
        names, secrets = find_secrets(spec.options), dict[str, str]()
        for subject in dict.fromkeys((EVERYBODY, spec.subject)) if names else ():
            row = await self.vault.get(key_of(spec.name, subject, SECRETS))
            secrets |= stored_secrets(row, spec)
        for name in names:
            if name not in secrets:
                command = f"toolgate credentials set {spec.name} --secret {name}"
                raise LoginNeededError(
                    f"The server {spec.name!r} needs the secret {name}, which is not stored for"
                    " it.",
                    server=spec.name,
                    hint=self._hint_for_administrators(command),
                )
        complete = with_values(spec, values, secrets)
        return replace(complete, secrets=complete.secrets.union(headers.values()))

    # Used by transports

    async def headers(self, spec: ServerSpec, subject: str) -> Mapping[str, str]:
        """Return the headers for the next request.

        Raises:
            LoginNeededError: The settings require a credential, and there is none.
            UnreachableError: The authorization server does not answer.
        """
        settings = spec.credentials
        if settings.type == "client_credentials":
            return bearer_header(await self._own_token(spec))
        if settings.type == "token_exchange":
            return bearer_header(await self._exchanged(spec, subject))
        credential = await self._find(spec, subject)
        if credential is None:
            if settings.type == "oauth" or settings.headers:
                raise self.login_needed(spec, subject)
            return {}
        if credential.secret.get("form") == "static":
            return {str(name): str(value) for name, value in credential.secret["headers"].items()}
        if credential.secret.get("ended"):
            raise self.login_needed(
                spec, _subject_of(credential), ended=str(credential.secret["ended"])
            )
        if self._is_due(credential.secret):
            return bearer_header(await self._renewed(spec, credential.key, used=""))
        return bearer_header(str(credential.secret["access_token"]))

    async def environment(self, spec: ServerSpec, subject: str) -> Mapping[str, str]:
        """Return the variables of a process to be started; raises the same errors as `headers`."""
        credential = await self._find(spec, subject)
        if credential is None or credential.secret.get("form") != "static":
            if spec.credentials.env:
                raise self.login_needed(spec, subject)
            return {}
        return {str(name): str(value) for name, value in credential.secret["env"].items()}

    async def refused(
        self,
        spec: ServerSpec,
        subject: str,
        *,
        sent: Mapping[str, str],
        status: int,
        challenge: str,
    ) -> bool:
        """Return whether a refused request is worth retrying.

        Raises:
            LoginNeededError: A person has to log in.
            UnreachableError: The authorization server does not answer.
        """
        # The token that was refused, not the newest one: another call may have renewed it since.
        used = sent.get("authorization", "").removeprefix("Bearer ")
        lacks_scope = status == 403 and _INSUFFICIENT.search(challenge) is not None
        # Any other 403 is a decision of the server that a new token would not change.
        if status != 401 and not lacks_scope:
            return False
        if spec.credentials.type in {"client_credentials", "token_exchange"}:
            return status == 401 and await self._is_other_token(spec, subject, used)
        credential = await self._find(spec, subject)
        if credential is None:
            if sent or not _is_bearer(challenge) or _has_own(spec):
                return False
            raise self.login_needed(spec, subject)
        if lacks_scope:
            match = _SCOPE.search(challenge)
            scope = match[1] if match else ""
            self.missing_scopes[spec.name, _subject_of(credential)] = scope
            raise self.login_needed(spec, _subject_of(credential), scope=scope or "more")
        if credential.secret.get("form") == "static":
            raise self.login_needed(spec, _subject_of(credential), refused=True)
        renewed = await self._renewed(spec, credential.key, used=used or "-")
        return renewed != used

    # Lookup

    async def _find(self, spec: ServerSpec, subject: str) -> DecryptedCredential | None:
        credential = await self.vault.get(key_of(spec.name, subject))
        if credential is None and subject == EVERYBODY and spec.credentials.per != "server":
            credential = await self._of_anybody(spec)
        # A credential is bound to its origin: changing the URL of a server must not send it there.
        if credential is None or credential.secret.get("origin") not in {None, origin_of(spec)}:
            return None  # obtained for another address
        return credential

    async def _of_anybody(self, spec: ServerSpec) -> DecryptedCredential | None:
        """Return any valid credential, to list what a server without a shared one offers."""
        rows = await self.vault.all(spec.name)
        good = [row for row in rows if row.details.get("state") != "ended"]
        for row in sorted(good, key=lambda row: str(row.details["updated_at"]), reverse=True):
            if credential := await self.vault.get(row.key):
                return credential
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
        """Return the error that asks a person to log in."""
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
        # Shared logins are managed by the administrator, so users get no link to them.
        url = self._links.url_if_any(spec.name, subject) if is_theirs or self._is_local else ""
        command = f"toolgate servers login {spec.name}"
        if spec.credentials.headers or spec.credentials.env:
            command = f"toolgate credentials set {spec.name}"
        hint = f"Run: {command}" if is_theirs else self._hint_for_administrators(command)
        if url:
            hint = f"Open {url} with a browser, or run: {command}"
        return LoginNeededError(failed, server=spec.name, url=url, hint=hint)

    def _hint_for_administrators(self, command: str) -> str:
        start = "Run" if self._is_local else "Ask the administrator of the gateway to run"
        return f"{start}: {command}"

    # Renewal of stored logins

    def _is_due(self, secret: Json) -> bool:
        expires_at = secret.get("expires_at")
        if not isinstance(expires_at, (int, float)):
            return False
        # The share matters for short lifetimes: 60 s early would renew a 60 s token every time.
        early_s = min(_EARLY_S, _EARLY_SHARE * float(secret.get("lifetime_s") or 0))
        return self.clock() >= expires_at - early_s

    async def _renewed(self, spec: ServerSpec, key: CredentialKey, *, used: str) -> str:
        """Return a renewed token; concurrent callers wait for the same renewal.

        It runs in its own task, so that a token that the authorization server has issued is
        stored even if the caller goes away.
        """
        task = self._renewing.get(key)
        if task is None:
            # An empty context: the deadline of the request that happens to start it does not apply.
            task = asyncio.create_task(
                self._renew(spec, key, used), name="toolgate-renew", context=Context()
            )
            self._renewing[key] = task
            task.add_done_callback(lambda done: self._over(key, done))
        return await asyncio.shield(task)

    def _over(self, key: CredentialKey, task: "asyncio.Task[str]") -> None:
        self._renewing.pop(key, None)
        if not task.cancelled():
            task.exception()  # mark as retrieved, even if nobody waits any more

    async def _renew(self, spec: ServerSpec, key: CredentialKey, used: str) -> str:
        subject = key.subject
        while True:
            credential = await self.vault.get(key, fresh=True)
            if credential is None:
                raise self.login_needed(spec, subject)
            if credential.secret.get("ended"):
                raise self.login_needed(spec, subject, ended=str(credential.secret["ended"]))
            token = str(credential.secret["access_token"])
            if token != used and not self._is_due(credential.secret):
                return token  # another process was first
            if not credential.secret.get("refresh_token"):
                if not used and self.clock() < float(credential.secret["expires_at"]):
                    return token
                raise await self._end(spec, credential, "there is nothing to renew it with")
            # Refresh tokens may rotate (RFC 9700 section 4.14): using the same one in two processes
            # looks like theft, and the server may revoke the whole login.
            until = utc_text_of(self.clock() + _LEASE_S)
            if await self.vault.lease(key, self._name, until, utc_text_of(self.clock())):
                break
            await anyio.sleep(_LOOK_AGAIN_S)
        # It may have been renewed between the check and the lease.
        credential = await self.vault.get(key, fresh=True) or credential
        token = str(credential.secret.get("access_token") or "")
        if token and token != used and not self._is_due(credential.secret):
            return token
        try:
            return await self._ask_for_fresh(spec, credential)
        except UnreachableError:
            # Return the lease at once, or other processes would wait until it expires.
            await self.vault.lease(key, self._name, "", utc_now())
            if not used and self.clock() < float(credential.secret.get("expires_at") or 0):
                log.warning("login not renewed", extra={"server": spec.name})
                return token
            raise

    async def _ask_for_fresh(self, spec: ServerSpec, credential: DecryptedCredential) -> str:
        module = await load("toolgate.security.credentials.oauth")
        oauth = await self.oauth()
        secret = credential.secret
        try:
            fresh = await oauth.refresh(
                await self.token_endpoint(spec, secret),
                refresh_token=str(secret["refresh_token"]),
                resource=str(secret.get("resource") or ""),
                scopes=str(secret.get("scope") or ""),
            )
        except module.GrantRefusedError as error:
            raise await self._end(spec, credential, error.reason) from error
        renewed = with_tokens(secret, fresh, self.clock())
        for _ in range(_SAVES):
            try:
                if await self.vault.save(
                    credential.key,
                    renewed,
                    public_details(renewed, credential.details),
                    over=credential.version,
                    quietly=True,
                ):
                    break
                current = await self.vault.get(credential.key, fresh=True)
            except StoreError as error:
                log.warning("login not written", extra={"server": spec.name, "error": str(error)})
                self.vault.remember_unsaved(credential.key, renewed, credential)
                continue
            if current is None:
                raise self.login_needed(spec, credential.key.subject)
            # A new login has replaced this one meanwhile and takes precedence.
            if current.secret.get("refresh_token") != secret["refresh_token"]:
                return str(current.secret.get("access_token") or fresh.access_token)
            credential = current  # only re-encrypted
        log.info("login renewed", extra={"server": spec.name})
        return str(fresh.access_token)

    async def token_endpoint(self, spec: ServerSpec, secret: Json) -> Any:
        """Return the endpoint that issues the tokens of a login."""
        module = await load("toolgate.security.credentials.oauth")
        outbound = self._outbound()
        options = module.way_of(spec)
        url = str(secret["token_url"])
        settings = spec.credentials
        if settings.token_url == url:
            reach = (await load("toolgate.security.outbound")).CONFIGURED
        else:
            reach = await outbound.reach_from(settings.issuer or module.address_of(spec), options)
        return module.TokenEndpoint(
            token_url=url, client=secret["client"], reach=reach, options=options.elsewhere
        )

    async def _end(
        self, spec: ServerSpec, credential: DecryptedCredential, reason: str
    ) -> LoginNeededError:
        """Mark a login as ended, so that it is not tried again; return the error."""
        secret = {
            name: value
            # Tokens of an ended login are useless, so they are removed from the store.
            for name, value in credential.secret.items()
            if name not in {"access_token", "refresh_token"}
        }
        secret["ended"] = reason
        details = {**credential.details, "state": "ended", "reason": reason}
        await self.vault.save(credential.key, secret, details, over=credential.version)
        log.warning("login has ended", extra={"server": spec.name, "reason": reason})
        return self.login_needed(spec, credential.key.subject, ended=reason)

    # Tokens that are not stored

    async def _own_token(self, spec: ServerSpec) -> str:
        async def get() -> _Token:
            oauth = await self.oauth()
            endpoint, resource, scopes = await self._token_place(spec)
            token = await oauth.of_client(
                endpoint, resource=resource, scopes=scopes, audience=spec.credentials.audience
            )
            return self._token_of(token)

        return await self._once(spec, ("own", spec.name), get)

    async def _exchanged(self, spec: ServerSpec, subject: str) -> str:
        theirs = self._callers.get(subject, "")
        if not theirs:
            raise LoginNeededError(
                f"The server {spec.name!r} needs the caller's token from an identity provider, to "
                "exchange it for its own, and the caller has none.",
                server=spec.name,
                hint="Use a token of the identity provider that [authn.options.jwt] names.",
            )

        async def get() -> _Token:
            oauth = await self.oauth()
            endpoint, resource, scopes = await self._token_place(spec)
            token = await oauth.exchange_token(
                endpoint,
                subject_token=theirs,
                resource=resource,
                scopes=scopes,
                audience=spec.credentials.audience,
            )
            return self._token_of(token)

        # By the hash of the caller's token, so that no caller gets a token exchanged for another's.
        mark = hashlib.sha256(theirs.encode(errors="surrogatepass")).hexdigest()
        return await self._once(spec, (f"{spec.name} {origin_of(spec)}", mark), get)

    async def _once(
        self, spec: ServerSpec, key: tuple[str, str], get: Callable[[], Awaitable[_Token]]
    ) -> str:
        cached = self._gateway_tokens.get(key)
        if cached is not None and self.clock() < cached.due_at:
            return cached.text
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
        self._gateway_tokens[key] = token
        if len(self._gateway_tokens) > _CALLERS:
            del self._gateway_tokens[next(iter(self._gateway_tokens))]
        return token.text

    async def _is_other_token(self, spec: ServerSpec, subject: str, used: str) -> bool:
        """Forget a refused token; return whether there is another one now."""
        for key in [key for key, token in self._gateway_tokens.items() if token.text == used]:
            del self._gateway_tokens[key]
        headers = await self.headers(spec, subject)
        return headers.get("authorization") != f"Bearer {used}"

    async def _token_place(self, spec: ServerSpec) -> tuple[Any, str, str]:
        """Return the endpoint, resource and scopes for tokens of the gateway itself."""
        module = await load("toolgate.security.credentials.oauth")
        settings = spec.credentials
        client = module.client_of(settings)
        if settings.token_url:
            reach = (await load("toolgate.security.outbound")).CONFIGURED
            endpoint = module.TokenEndpoint(
                token_url=settings.token_url,
                client=client,
                reach=reach,
                options=module.way_of(spec).elsewhere,
            )
            return endpoint, module.address_of(spec), " ".join(settings.scopes)
        target = await (await self.oauth()).discover(spec)
        client, _ = await (await self.oauth()).client(
            settings, target, redirects=(), name="", document=""
        )
        endpoint = module.TokenEndpoint(
            token_url=str(target.metadata.token_endpoint),
            client=client,
            reach=target.reach,
            options=target.options,
        )
        return endpoint, target.resource, " ".join(settings.scopes)

    def _token_of(self, token: Any) -> _Token:
        # `expires_in` is optional (RFC 6749 section 5.1); the default of 300 s is chosen.
        lifetime_s = float(token.expires_in) if token.expires_in is not None else 300.0
        early_s = min(_EARLY_S, _EARLY_SHARE * lifetime_s)
        return _Token(text=token.access_token, due_at=self.clock() + lifetime_s - early_s)

    async def aclose(self) -> None:
        """Wait until running renewals are saved, since their tokens are issued only once."""
        tasks = [*self._renewing.values(), *self._getting.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=_LEASE_S / 2)
        for task in tasks:
            task.cancel()


class ConnectionCredential:
    """The credential of one connection."""

    def __init__(self, desk: CredentialProvider, spec: ServerSpec) -> None:
        self._desk = desk
        self._spec = spec

    async def headers(self) -> Mapping[str, str]:
        """Return the headers for the next request."""
        return await self._desk.headers(self._spec, self._spec.subject)

    async def environment(self) -> Mapping[str, str]:
        """Return the variables for a process."""
        return await self._desk.environment(self._spec, self._spec.subject)

    async def refused(self, *, sent: Mapping[str, str], status: int, challenge: str) -> bool:
        """Return whether a refused request is worth retrying."""
        return await self._desk.refused(
            self._spec, self._spec.subject, sent=sent, status=status, challenge=challenge
        )


def _subject_of(credential: DecryptedCredential) -> str:
    return credential.key.subject


def _is_bearer(challenge: str) -> bool:
    return challenge.strip().lower().startswith("bearer") or "resource_metadata" in challenge


def _has_own(spec: ServerSpec) -> bool:
    """Return whether the server's configuration has its own Authorization header."""
    names = json_object(spec.options.get("headers"))
    return any(name.lower() == "authorization" for name in names)
