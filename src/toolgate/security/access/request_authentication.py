"""Authenticates requests: turns credentials into a `Caller`, with its project."""

import hmac
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Protocol
from urllib.parse import unquote_to_bytes

from toolgate.base.names import NO_PROJECT
from toolgate.base.tracing import observe
from toolgate.errors import AccessError, CredentialError, ForbiddenError
from toolgate.security.access.login_failures import LoginFailures
from toolgate.security.authn import Authenticator
from toolgate.types import DEFAULT_PROJECT, LOCAL, Caller, Identity

# Maximum length of a project name in a request. Chosen.
_MAX_WORD = 200
# The prefix of a token created by `toolgate tokens create`.
_TOKEN_PREFIX = re.compile(r"tg_[0-9a-f]{8}(?=_)")


@dataclass(frozen=True, kw_only=True)
class PresentedCredentials:
    """Credentials, project and origin of a request."""

    authorization: str | None = None
    """The header `Authorization`."""

    meta_token: object = None
    """`_meta.token`; of any type, since clients set it."""

    path_project: str | None = None
    """Project in the path `/mcp/p/NAME`."""

    header_project: str | None = None
    """The header `X-Toolgate-Project`."""

    meta_project: object = None
    """`_meta.projectId`."""

    local_key: str | None = None
    """The header `X-Toolgate-Key`, which authenticates commands of the same user."""

    client: str = ""
    """Name of the client program, as the client states it."""

    client_version: str = ""
    """Version of the client program, as the client states it."""

    conversation: str = ""
    """Thread or session id."""

    address: str = ""
    """IP address of the client; wrong tokens are counted by it."""

    entry_point: str = ""
    """Entry point of the request, such as `mcp`, `rest` or `console`; for the audit log."""

    folder: str = ""
    """The header `X-Toolgate-Folder`, percent-encoded; only used from programs of the same user."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """All headers by lower-case name; a few of them may be forwarded to servers."""

    is_relay: bool = False
    """Whether the client is a `toolgate stdio` of the same user."""


class RefusalListener(Protocol):
    """Receives each refused login."""

    def __call__(self, reason: str, *, address: str, caller_id: str, entry_point: str) -> None:
        """Record a refused login. Never waits, never raises.

        Args:
            reason: `no_token`, `wrong_token` or `wrong_project`.
            address: IP address of the client.
            caller_id: Owner of the token; empty if unknown.
            entry_point: Such as `mcp` or `console`.
        """
        ...


class Admission:
    """Authenticates requests."""

    def __init__(
        self,
        authenticators: Sequence[Authenticator],
        *,
        required: bool,
        projects: Callable[[], Collection[str]],
        local: Authenticator | None = None,
        on_refusal: RefusalListener | None = None,
        forwarded_headers: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._authenticators = authenticators
        self._projects = projects
        self._local = local
        self.local_key = ""
        """Key that commands of the same user present; if empty, none is accepted."""
        self.required = required
        """Whether credentials are required."""
        self._failures = LoginFailures()
        self._on_refusal = on_refusal
        self._forwarded_headers = forwarded_headers
        self.refusals: Counter[str] = Counter()
        """Refused logins since the start, by reason."""

    @property
    def issuers(self) -> tuple[str, ...]:
        """URLs of the servers where clients can log in."""
        return tuple(
            issuer for authenticator in self._authenticators for issuer in authenticator.issuers
        )

    async def admit(self, presented: PresentedCredentials) -> Caller:
        """Authenticate a request and return its caller.

        Raises:
            CredentialError: A credential is required but missing, or it is invalid.
            ForbiddenError: The project does not exist, or the caller has no access to it.
        """
        try:
            return await self.authenticate(presented)
        except AccessError as error:
            self.note_refusal(error, presented)
            raise

    async def authenticate(self, presented: PresentedCredentials) -> Caller:
        """Do the same as `admit` without recording refusals: some requests do not need a caller.

        Raises:
            CredentialError: A credential is required but missing, or it is invalid.
            ForbiddenError: The project does not exist, or the caller has no access to it.
        """
        with observe("identity"):
            identity = await self._identify(presented)
            try:
                return self.caller_of(identity, presented)
            except ForbiddenError as error:
                error.caller_id = identity.caller_id
                raise

    def note_refusal(self, error: AccessError, presented: PresentedCredentials) -> None:
        """Count and record a refused login."""
        if not isinstance(error, CredentialError):
            reason = "wrong_project"
        else:
            reason = "wrong_token" if error.was_presented else "no_token"
        self.refusals[reason] += 1
        if self._on_refusal is not None:
            self._on_refusal(
                reason,
                address=presented.address,
                caller_id=error.caller_id,
                entry_point=presented.entry_point,
            )

    def caller_of(self, identity: Identity, presented: PresentedCredentials) -> Caller:
        """Create the caller for a known identity, in the project that a request names.

        Raises:
            ForbiddenError: The project does not exist, or the caller has no access to it.
        """
        return Caller(
            caller_id=identity.caller_id,
            project_id=self._project(identity, presented),
            client=presented.client,
            client_version=presented.client_version,
            conversation=(presented.conversation or presented.client)[:_MAX_WORD],
            identity=identity,
            entry_point=presented.entry_point or "python",
            credential=_credential(presented) if identity.kind == "jwt" else "",
            headers=self._headers(identity, presented),
            folder=self._folder(presented),
        )

    async def identify(self, presented: PresentedCredentials) -> Identity:
        """Return the identity of the caller.

        Raises:
            CredentialError: A credential is required but missing, or it is invalid.
        """
        try:
            return await self._identify(presented)
        except CredentialError as error:
            self.note_refusal(error, presented)
            raise

    async def is_known(self, presented: PresentedCredentials) -> bool:
        """Whether the headers of a request prove who sends it, before its body is read.

        Raises:
            CredentialError: They contain a bearer token that is invalid.
        """
        has_token = bool(_bearer_token(presented.authorization))
        if self.required and not has_token and not presented.local_key:
            return False
        try:
            await self._identify(presented)
        except CredentialError as error:
            if not has_token:  # the message may contain a token
                return False
            self.note_refusal(error, presented)
            raise
        return True

    async def _identify(self, presented: PresentedCredentials) -> Identity:
        if not self.required:
            return LOCAL
        if presented.local_key and self._local is not None:
            local = await self._local.identify(presented.local_key)
            if local is not None:
                return local
        credential = _credential(presented)
        prefix = _prefix_of(credential)
        try:
            identity = await self._verify(credential)
        except CredentialError as error:
            # After the check, so that guesses never lock out valid tokens from the same address.
            if not error.was_issued and (wait_s := self._failures.add(presented.address, prefix)):
                raise CredentialError(
                    f"Too many wrong tokens from {presented.address or 'this client'}"
                    " within a minute.",
                    wait_s=wait_s,
                    hint="Correct the token of the client that sends them.",
                ) from error
            raise
        self._failures.forget(prefix)
        return identity

    async def _verify(self, credential: str) -> Identity:
        """Return the identity for a credential, from the first authenticator that recognizes it."""
        for authenticator in self._authenticators:
            identity = await authenticator.identify(credential)
            if identity is not None:
                return identity
        raise CredentialError(
            "Unknown or expired token.",
            hint="Create one with: toolgate tokens create NAME",
        )

    def _project(self, identity: Identity, presented: PresentedCredentials) -> str:
        asked = (
            _word(presented.path_project)
            or _word(presented.header_project)
            or _word(presented.meta_project)
        )
        allowed = identity.projects
        name = asked or (allowed[0] if allowed and allowed[0] != "*" else "")
        if not name:
            return DEFAULT_PROJECT
        if name not in self._projects() or (name not in allowed and "*" not in allowed):
            # The response is the same for a project that does not exist and one without access.
            raise ForbiddenError(
                f"There is no project {name[:60]!r} for you.",
                hint="Name one that your token has, or none; ask the administrator of the gateway.",
            )
        return name

    def _headers(self, identity: Identity, presented: PresentedCredentials) -> Mapping[str, str]:
        """Return the headers that servers are to receive; never a token of the gateway itself.

        Clients may send one where the gateway needs none, or in another header.
        """
        return {
            name: presented.headers[name]
            for name in self._forwarded_headers()
            if name in presented.headers
            if not (name == "authorization" and identity.kind == "token")
            if not _TOKEN_PREFIX.search(presented.headers[name])
        }

    def _folder(self, presented: PresentedCredentials) -> str:
        """Return the client's working folder, if a program of the same user states it."""
        if not presented.folder:
            return ""
        # The folder is on this machine, so a remote client must not set it.
        is_own = presented.is_relay or (
            bool(self.local_key)
            and hmac.compare_digest((presented.local_key or "").encode(), self.local_key.encode())
        )
        folder = os.fsdecode(unquote_to_bytes(presented.folder)) if is_own else ""
        return folder if PurePath(folder).is_absolute() and "\0" not in folder else ""


def _credential(presented: PresentedCredentials) -> str:
    """Return the token of a request: from the header, else from `_meta`.

    Raises:
        CredentialError: There is no token.
    """
    if presented.authorization is not None:
        if token := _bearer_token(presented.authorization):
            return token
        if not isinstance(presented.meta_token, str) or not presented.meta_token:
            raise CredentialError(
                "The Authorization header contains no bearer token.",
                hint="Send: Authorization: Bearer TOKEN",
            )
    if isinstance(presented.meta_token, str) and presented.meta_token.strip():
        return presented.meta_token.strip()
    raise CredentialError(
        "A token is required, and the request has none.",
        was_presented=False,
        hint="Send the header Authorization: Bearer TOKEN, or _meta.token where that is impossible."
        " Create a token with: toolgate tokens create NAME",
    )


def _bearer_token(authorization: str | None) -> str:
    """Return the token in an Authorization header; empty if it has none."""
    scheme, _, token = (authorization or "").strip().partition(" ")
    # Scheme names are case-insensitive (RFC 9110 section 11.1).
    return token.strip() if scheme.lower() == "bearer" else ""


def _prefix_of(credential: str) -> str:
    """Return the prefix of a token; empty if it has none, such as a JWT."""
    match = _TOKEN_PREFIX.match(credential)
    return match[0] if match else ""


def _word(value: object) -> str:
    """Return the project name that was sent; empty if none was."""
    word = value.strip() if isinstance(value, str) else ""
    return "" if word in NO_PROJECT else word
