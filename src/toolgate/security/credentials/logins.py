"""What people do with credentials: log in, set, list and delete them."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlsplit

from toolgate.base.ids import new_id, utc_now
from toolgate.base.lazy_loading import load
from toolgate.errors import ArgumentError, ForbiddenError, HandleError, UnknownServerError
from toolgate.security.credentials.credential_values import (
    SECRETS,
    origin_of,
    public_details,
    secrets_credential,
    static_credential,
    stored_secrets,
    with_tokens,
)
from toolgate.security.credentials.login_links import LoginLinks
from toolgate.security.credentials.login_view import (
    LoginPage,
    LoginRights,
    LoginView,
    StartedLogin,
    login_view,
)
from toolgate.security.credentials.provider import CredentialProvider
from toolgate.security.credentials.subject import EVERYBODY, key_of, subject_named, subject_of
from toolgate.security.credentials.value_checks import check_values
from toolgate.security.credentials.vault import DecryptedCredential
from toolgate.settings import CredentialSettings
from toolgate.store import CredentialKey
from toolgate.types import Caller, Json, ServerSpec, json_object

CALLBACK = "/oauth/callback"
DOCUMENT = "/oauth/client.json"
_METADATA = {
    *("issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint"),
    "authorization_response_iss_parameter_supported",
}
"""What the end of a login needs of the authorization server's metadata."""

_KINDS = ("login", SECRETS)
"""The kinds of rows that people set and delete."""

_MARK = re.compile(r"[A-Za-z0-9_-]{20,100}")
_MOST_KEPT = 16
"""Unfinished logins of a caller, and registrations of a server; the oldest are dropped. Chosen:
nobody has as many windows open, and a dropped registration is repeated."""


class Logins:
    """Manages credentials, and checks who may."""

    def __init__(
        self,
        desk: CredentialProvider,
        links: LoginLinks,
        *,
        rights: LoginRights,
        specs: Callable[[], list[ServerSpec]],
        settings: Callable[[], CredentialSettings],
        record: Callable[[Caller, str, Json], Awaitable[None]],
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        """Create the manager.

        Args:
            desk: Provides the credentials to connections.
            links: Links to login pages.
            rights: Who may do what.
            specs: Returns the servers.
            settings: Table `[credentials]`.
            record: Writes an audit record.
            changed: Called when connections have to use another credential.
        """
        self._desk = desk
        self.links = links
        """Links to login pages."""
        self._rights = rights
        self._specs = specs
        self._settings = settings
        self._record = record
        self._changed = changed

    # Listing

    async def list(self, caller: Caller, server: str | None = None) -> list[LoginView]:
        """Return the caller's own credentials, or all for callers who manage servers."""
        if server is not None:
            self._spec(caller, server)
        manages = self._rights.manages(caller)
        subjects = {spec.name: subject_of(spec, caller) for spec in self._specs()}
        vault = self._desk.vault
        return [
            login_view(credential)
            for credential in (*await vault.all(server), *await vault.all(server, kind=SECRETS))
            if manages
            or (
                credential.key.subject
                and subjects.get(credential.key.server) == credential.key.subject
            )
        ]

    def specs(self, caller: Caller) -> tuple[ServerSpec, ...]:
        """Return the servers that a caller has access to."""
        return tuple(spec for spec in self._specs() if self._rights.reaches(caller, spec.name))

    # Logging in

    async def begin(
        self,
        caller: Caller,
        server: str,
        *,
        user: str = "",
        project: str = "",
        redirect: str = "",
    ) -> StartedLogin:
        """Start a login for the caller or, if the caller manages servers, for somebody else.

        Args:
            caller: The caller.
            server: The server.
            user: Whose login it is, if each user has one; empty: the caller's.
            project: Of which project, if each has one; empty: the caller's.
            redirect: Address on the caller's own machine that receives the response; empty: a
                page of the gateway handles everything.

        Raises:
            UnknownServerError: The server does not exist for this caller.
            ForbiddenError: It is not the caller's own login, and the caller does not manage
                servers.
            ArgumentError: The server has no logins, or there is no page to send anybody to.
            UpstreamError: The authorization server cannot be asked.
        """
        spec = self._spec(caller, server)
        subject = self._subject(caller, spec, user=user, project=project)
        self._must_have_logins(spec)
        if not redirect:
            return StartedLogin(
                url=self.links.url(spec.name, subject), expires_in_s=self._settings().login_s
            )
        if not _is_own_machine(redirect):
            raise ArgumentError(
                f"redirect_uri is {redirect[:100]!r}.",
                allowed="Allowed: http://127.0.0.1:PORT/PATH, the caller's own machine.",
            )
        return await self._begin(spec, subject, redirect=redirect, by=caller.caller_id, browser="")

    async def begin_at(self, caller: Caller, page: LoginPage, *, browser: str) -> StartedLogin:
        """Start the login of a login page, for the subject that the page was created for.

        Args:
            caller: The person at the browser.
            page: The login that the page is for.
            browser: A secret of this browser, which has to be presented again at the end.

        Raises:
            ForbiddenError: The page was created for somebody else.
            UpstreamError: The authorization server cannot be asked.
        """
        spec = self._spec(caller, page.server)
        is_own = page.subject == subject_of(spec, caller) != EVERYBODY
        if not is_own and not self._rights.manages(caller):
            raise ForbiddenError(
                "This login was started for somebody else.",
                hint="Use the token of the client that started the login.",
            )
        return await self._begin(
            spec,
            page.subject,
            redirect=f"{self.links.base}{CALLBACK}",
            by=caller.caller_id,
            browser=browser,
        )

    async def finish(
        self,
        *,
        state: str,
        code: str = "",
        error: str = "",
        iss: str | None = None,
        browser: str = "",
        caller: Caller | None = None,
    ) -> LoginView:
        """Finish a login with the authorization server's response; possible once per login.

        Args:
            state: Identifies the login.
            code: The authorization code, which is exchanged for tokens.
            error: Why there is no code.
            iss: The issuer of the response (RFC 9207).
            browser: The browser's secret, as passed to `begin_at`.
            caller: Who delivers the response, if not a browser.

        Raises:
            HandleError: The login does not exist, is over, or belongs to somebody else.
            UpstreamError: The code yields no tokens.
        """
        # pop() deletes the row before anything is checked: a code can be tried once.
        pending_row = await self._desk.vault.pop(_key_of_pending(state))
        if pending_row is None or float(pending_row.secret["until"]) < self._desk.clock():
            raise HandleError(
                "This answer belongs to no open login: it was finished or has expired.",
                hint="Start again: toolgate servers login NAME",
            )
        secret = pending_row.secret
        theirs = caller.caller_id if caller is not None else ""
        # Login CSRF: otherwise an attacker could have a victim finish the attacker's login (RFC
        # 9700 section 4.7). A browser proves itself by its cookie, a command by its token.
        is_same = hmac.compare_digest(
            str(secret["browser"]).encode(), (_mark(browser) if browser else "").encode()
        )
        if not is_same or (not secret["browser"] and theirs != secret["by"]):
            raise HandleError(
                "This login was started by somebody else.",
                hint="Start again, and stay in the same browser.",
            )
        spec = self._spec_by_name(str(secret["server"]))
        subject = str(secret["subject"])
        await self._check_answer(spec, error, iss, secret, code)
        view = await self._keep(spec, subject, secret, code)
        who = Caller.local(caller_id=str(secret["by"]))
        await self._record(caller or who, "login", {"server": spec.name, "subject": subject})
        self._desk.missing_scopes.pop((spec.name, subject), None)
        await self._changed()
        return view

    # Setting and deleting

    async def give(
        self,
        caller: Caller,
        server: str,
        *,
        headers: Mapping[str, str],
        env: Mapping[str, str],
        secrets: Mapping[str, str] | None = None,
        user: str = "",
        project: str = "",
    ) -> LoginView:
        """Save what is sent to a server.

        Args:
            caller: Who saves it.
            server: The server.
            headers: Headers, which replace the previous ones.
            env: Variables, which replace the previous ones.
            secrets: What `${secret:NAME}` stands for in its configuration; others stay.
            user: Whose they are, if each user has their own.
            project: The same for projects.

        Raises:
            UnknownServerError: The server does not exist for this caller.
            ForbiddenError: They are not the caller's own.
            ArgumentError: They cannot be sent, or the settings do not let users set them.
        """
        spec = self._spec(caller, server)
        subject = self._subject(caller, spec, user=user, project=project)
        secrets = secrets or {}
        check_values(spec, headers, env, secrets, manages=self._rights.manages(caller))
        views: list[LoginView] = []
        if headers or env:
            secret, details = static_credential(spec, headers, env, by=caller.caller_id)
            views.append(await self._saved(key_of(spec.name, subject), secret, details))
        if secrets:
            # Without a user or project they are everybody's, unlike a login.
            subject = subject_named(spec, user=user, project=project)
            views.append(await self._add_secrets(spec, subject, secrets, by=caller.caller_id))
        names = tuple(name for view in views for name in view.names)
        detail: Json = {"server": spec.name, "subject": subject, "names": names}
        await self._record(caller, "credentials", detail)
        await self._changed()
        return replace(views[-1], names=names)

    async def remove(
        self,
        caller: Caller,
        server: str,
        *,
        user: str = "",
        project: str = "",
        kind: Literal["", "login", "secrets"] = "",
    ) -> bool:
        """Delete credentials and revoke a login at its authorization server; False if none existed.

        Args:
            caller: Who deletes them.
            server: Their server.
            user: Whose they are, if each user has their own.
            project: The same for projects.
            kind: `login` for a login, headers and variables, `secrets` for secrets; empty for all.

        Raises:
            UnknownServerError: The server does not exist for this caller.
            ForbiddenError: It is not the caller's own.
        """
        spec = self._spec(caller, server)
        subject = self._subject(caller, spec, user=user, project=project)
        if kind == SECRETS and self._rights.manages(caller):
            subject = subject_named(spec, user=user, project=project)
        gone = 0
        for key in (key_of(spec.name, subject, kind) for kind in ([kind] if kind else _KINDS)):
            credential = await self._desk.vault.get(key, fresh=True)
            gone += await self._desk.vault.delete(
                server=spec.name, subject=subject, kind=key.kind, project_id=key.project_id
            )
            if credential is not None:
                await self._revoke(spec, credential)
        if gone:
            await self._record(caller, "logout", {"server": spec.name, "subject": subject})
            await self._changed()
        return gone > 0

    def document(self) -> Json | None:
        """Return the client ID metadata document of this gateway; None if it cannot have one."""
        # Authorization servers fetch this document, and its URL must be https.
        if not self.links.is_https:
            return None
        return {
            "client_id": f"{self.links.base}{DOCUMENT}",
            "client_name": self._settings().client_name,
            "client_uri": self.links.base,
            "redirect_uris": [
                f"{self.links.base}{CALLBACK}",
                "http://127.0.0.1/callback",
                "http://localhost/callback",
            ],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    # Steps of a login

    async def _begin(
        self, spec: ServerSpec, subject: str, *, redirect: str, by: str, browser: str
    ) -> StartedLogin:
        settings = self._settings()
        oauth = await self._desk.oauth()
        module = await load("toolgate.security.credentials.oauth")
        target = await oauth.discover(spec)
        module.check_pkce(target)
        # Step-up: also request the scopes that a 403 `insufficient_scope` named.
        # https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
        target = _with_scopes(target, self._desk.missing_scopes.get((spec.name, subject), ""))
        client = await self._client(spec, target, redirect)
        verifier, challenge = module.new_proof()
        state = secrets.token_urlsafe(32)
        until = self._desk.clock() + settings.login_s
        pending: Json = {
            "server": spec.name,
            "subject": subject,
            "verifier": verifier,
            "redirect": redirect,
            "client": client,
            "metadata": target.metadata.model_dump(
                mode="json", include=_METADATA, exclude_none=True
            ),
            "issuer": target.issuer,
            "resource": target.resource,
            "scope": target.scopes,
            "browser": _mark(browser) if browser else "",
            "by": by,
            "until": until,
        }
        # Unfinished logins are deleted when another one starts.
        await self._desk.vault.delete(kind="pending", before=utc_now(plus_s=-settings.login_s))
        await self._desk.vault.save(_key_of_pending(state), pending, {"by": by}, quietly=True)
        await self._desk.vault.keep_newest(_MOST_KEPT, "", kind="pending", by=by)
        url = module.authorize_url(
            target, client=client, redirect=redirect, state=state, challenge=challenge
        )
        return StartedLogin(url=url, state=state, expires_in_s=settings.login_s)

    async def _client(self, spec: ServerSpec, target: Any, redirect: str) -> Json:
        """Return the client to log in as; a new registration is stored for reuse."""
        settings = self._settings()
        document = settings.client_metadata_url or (
            f"{self.links.base}{DOCUMENT}" if self.document() is not None else ""
        )
        key = key_of(spec.name, redirect, "client")
        registration = await self._desk.vault.get(key, fresh=True)
        # A registration is valid for its issuer: the client secret must not reach another one.
        if registration is not None and registration.secret.get("issuer") == target.issuer:
            return json_object(registration.secret["client"])
        oauth = await self._desk.oauth()
        client, is_new = await oauth.client(
            spec.credentials,
            target,
            redirects=(redirect,),
            name=settings.client_name,
            document=document,
        )
        if is_new:
            secret = {"issuer": target.issuer, "client": client}
            await self._desk.vault.save(key, secret, {"issuer": target.issuer}, quietly=True)
            # Callers choose the redirect address on their machine, and each has its own client.
            await self._desk.vault.keep_newest(_MOST_KEPT, spec.name, kind="client")
        return client

    async def _check_answer(
        self, spec: ServerSpec, error: str, iss: str | None, secret: Json, code: str
    ) -> None:
        module = await load("toolgate.security.credentials.oauth")
        # Before `error` is read: a mix-up attacker controls that too (RFC 9207 section 2.4).
        module.check_iss(iss, json_object(secret["metadata"]))
        if error or not code:
            # The text comes from outside and ends up in a message: only a plain code is repeated.
            word = error if re.fullmatch(r"[a-z_]{1,60}", error) else "no code"
            if word == "access_denied":
                raise ForbiddenError(
                    f"The login at server {spec.name!r} was declined.",
                    hint=f"Start again: toolgate servers login {spec.name}",
                )
            if word in {"unauthorized_client", "invalid_client"}:
                await self._forget_client(spec, secret)
            raise ArgumentError(
                f"The authorization server of {spec.name!r} answered with {word}.",
                hint=f"Start again: toolgate servers login {spec.name}",
            )

    async def _keep(self, spec: ServerSpec, subject: str, pending: Json, code: str) -> LoginView:
        module = await load("toolgate.security.credentials.oauth")
        oauth = await self._desk.oauth()
        metadata = json_object(pending["metadata"])
        secret: Json = {
            "form": "oauth",
            "token_url": str(metadata["token_endpoint"]),
            "revoke_url": str(metadata.get("revocation_endpoint") or ""),
            "client": pending["client"],
            "issuer": pending["issuer"],
            "resource": pending["resource"],
            "scope": pending["scope"],
            "origin": origin_of(spec),
        }
        try:
            tokens = await oauth.exchange_code(
                await self._desk.token_endpoint(spec, secret),
                code=code,
                verifier=str(pending["verifier"]),
                redirect=str(pending["redirect"]),
                resource=str(pending["resource"]),
            )
        except module.GrantRefusedError as refused:
            if refused.reason in {"invalid_client", "unauthorized_client"}:
                await self._forget_client(spec, pending)
            raise
        complete = with_tokens(secret, tokens, self._desk.clock())
        details = {**public_details(complete, {}), "by": str(pending["by"]), "epoch": new_id()}
        return await self._saved(key_of(spec.name, subject), complete, details)

    async def _add_secrets(
        self, spec: ServerSpec, subject: str, added: Mapping[str, str], *, by: str
    ) -> LoginView:
        key = key_of(spec.name, subject, SECRETS)
        while True:
            old = await self._desk.vault.get(key, fresh=True)
            complete = {**stored_secrets(old, spec), **added}
            secret, details = secrets_credential(spec, complete, by=by)
            over = 0 if old is None else old.version
            # False: somebody else has stored one meanwhile, which must not be lost.
            if await self._desk.vault.save(key, secret, details, over=over):
                return await self._view(key)

    async def _saved(self, key: CredentialKey, secret: Json, details: Json) -> LoginView:
        await self._desk.vault.save(key, secret, details)
        return await self._view(key)

    async def _view(self, key: CredentialKey) -> LoginView:
        credential = await self._desk.vault.get(key, fresh=True)
        assert credential is not None
        return login_view(credential)

    async def _forget_client(self, spec: ServerSpec, pending: Json) -> None:
        """Delete a registration that is no longer accepted; the next login registers again."""
        await self._desk.vault.delete(
            server=spec.name, subject=str(pending["redirect"]), kind="client"
        )

    async def _revoke(self, spec: ServerSpec, credential: DecryptedCredential) -> None:
        secret = credential.secret
        token = secret.get("refresh_token") or secret.get("access_token")
        if not secret.get("revoke_url") or not token:
            return
        oauth = await self._desk.oauth()
        await oauth.revoke(
            str(secret["revoke_url"]), await self._desk.token_endpoint(spec, secret), str(token)
        )

    # Permissions

    def _spec(self, caller: Caller, name: str) -> ServerSpec:
        if not self._rights.reaches(caller, name):
            raise _unknown(name)
        return self._spec_by_name(name)

    def _spec_by_name(self, name: str) -> ServerSpec:
        for spec in self._specs():
            if spec.name == name:
                return spec
        raise _unknown(name)

    def _subject(self, caller: Caller, spec: ServerSpec, *, user: str, project: str) -> str:
        caller_subject = subject_of(spec, caller)
        named = subject_named(spec, user=user, project=project)
        subject = named or caller_subject
        is_own = spec.credentials.per == "user" and subject == caller_subject
        if not is_own and not self._rights.manages(caller):
            raise ForbiddenError(
                f"The credentials of server {spec.name!r} are not yours to change.",
                hint="Ask the administrator of the gateway.",
            )
        return subject

    def _must_have_logins(self, spec: ServerSpec) -> None:
        if spec.credentials.type in {"client_credentials", "token_exchange"}:
            raise ArgumentError(
                f"Server {spec.name!r} needs no login: it gets its token by"
                f" {spec.credentials.type}."
            )
        if spec.kind not in {"http", "sse"} or not spec.options:
            raise ArgumentError(
                f"Server {spec.name!r} has no address, so there is nothing to log in to.",
                hint=f"Give it variables instead: toolgate credentials set {spec.name}"
                " --env NAME=VALUE",
            )


def _with_scopes(target: Any, more: str) -> Any:
    if not more:
        return target
    both = dict.fromkeys([*target.scopes.split(), *more.split()])
    return replace(target, scopes=" ".join(both))


def _unknown(name: str) -> UnknownServerError:
    return UnknownServerError(
        f"There is no server {name[:60]!r}.", hint="See: toolgate servers list"
    )


def _key_of_pending(state: str) -> CredentialKey:
    """Return the row of an unfinished login.

    Only a hash of the state is stored, so a copy of the database cannot finish a login. The row
    names no server, so that anybody's answer costs a single look-up.
    """
    return key_of("", _mark(state), "pending")


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _is_own_machine(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_here = parts.hostname in {"127.0.0.1", "localhost", "::1"} and bool(parts.port)
    except ValueError:
        return False
    # Browsers read `http://evil.example\@127.0.0.1:80/` as an address of evil.example.
    return (
        parts.scheme == "http"
        and is_here
        and url.isprintable()
        and not any(sign in url for sign in "#\\@")
    )


def is_browser_mark(text: str) -> bool:
    """Return whether a text has the form of a browser's secret."""
    return _MARK.fullmatch(text) is not None
