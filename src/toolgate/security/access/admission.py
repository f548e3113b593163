"""Turns a request's credentials into a `Caller`: who it is, and for which project."""

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

__all__ = ["Admission", "PresentedCredentials"]

# Characters of the name of a project that a request may give. Chosen.
_MAX_WORD = 200
# The public part of a token made by `toolgate tokens create`.
_TOKEN_PREFIX = re.compile(r"tg_[0-9a-f]{8}(?=_)")


@dataclass(frozen=True, kw_only=True)
class PresentedCredentials:
    """The credentials and the project that a request presents."""

    authorization: str | None = None
    """The header of this name."""

    meta_token: object = None
    """`_meta.token`; anything, since clients write it."""

    path_project: str | None = None
    """From the path `/mcp/p/NAME`."""

    header_project: str | None = None
    """The header `X-Toolgate-Project`."""

    meta_project: object = None
    """`_meta.projectId`."""

    local_key: str | None = None
    """The header `X-Toolgate-Key`, by which commands of the same user show that they are."""

    client: str = ""
    """The client program as it says itself."""

    conversation: str = ""
    """Thread or session."""

    address: str = ""
    """IP address of the client, by which wrong tokens are counted."""

    entry_point: str = ""
    """What was asked, such as `mcp`, `rest` or `console`; for the audit."""

    folder: str = ""
    """The header `X-Toolgate-Folder`, percent-encoded; counts only for programs of the same user.
    """

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """All its headers by name in lower case, of which a few may go on to servers."""

    is_relay: bool = False
    """Whether it is a `toolgate stdio` of the same user."""


class RefusalListener(Protocol):
    """Learns of each refused login."""

    def __call__(self, reason: str, *, address: str, caller_id: str, entry_point: str) -> None:
        """Take note of it; never waits, never fails.

        Args:
            reason: `no_token`, `wrong_token` or `wrong_project`.
            address: IP address of the client.
            caller_id: Who the token belongs to; empty if that is unknown.
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
        """What commands of the same user show; empty: nobody can."""
        self.required = required
        """Whether a credential is needed."""
        self._failures = LoginFailures()
        self._on_refusal = on_refusal
        self._forwarded_headers = forwarded_headers
        self.refusals: Counter[str] = Counter()
        """Refused logins since the start, by reason."""

    @property
    def issuers(self) -> tuple[str, ...]:
        """Where clients can log in."""
        return tuple(
            issuer for authenticator in self._authenticators for issuer in authenticator.issuers
        )

    async def admit(self, presented: PresentedCredentials) -> Caller:
        """The caller of a request.

        Raises:
            CredentialError: A credential is needed and none came, or it is worth nothing.
            ForbiddenError: The project does not exist, or is not the caller's.
        """
        try:
            return await self.authenticate(presented)
        except AccessError as error:
            self.note_refusal(error, presented)
            raise

    async def authenticate(self, presented: PresentedCredentials) -> Caller:
        """As `admit`; a refusal is not noted, since some requests are answered without a caller.

        Raises:
            CredentialError: A credential is needed and none came, or it is worth nothing.
            ForbiddenError: The project does not exist, or is not the caller's.
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
        """Somebody who is known, in the project that a request names.

        Raises:
            ForbiddenError: The project does not exist, or is not the caller's.
        """
        return Caller(
            caller_id=identity.caller_id,
            project_id=self._project(identity, presented),
            client=presented.client,
            conversation=(presented.conversation or presented.client)[:_MAX_WORD],
            identity=identity,
            entry_point=presented.entry_point or "python",
            credential=_credential(presented) if identity.kind == "jwt" else "",
            headers=self._headers(identity, presented),
            folder=self._folder(presented),
        )

    async def identify(self, presented: PresentedCredentials) -> Identity:
        """Who asks.

        Raises:
            CredentialError: A credential is needed and none came, or it is worth nothing.
        """
        try:
            return await self._identify(presented)
        except CredentialError as error:
            self.note_refusal(error, presented)
            raise

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
            # After the check: guesses never keep out who has a valid token at the same address.
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
        """The identity behind a credential, from the first authenticator that knows it."""
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
            # A project that there is not and one that is another's look the same.
            raise ForbiddenError(
                f"There is no project {name[:60]!r} for you.",
                hint="Name one that your token has, or none; ask the administrator of the gateway.",
            )
        return name

    def _headers(self, identity: Identity, presented: PresentedCredentials) -> Mapping[str, str]:
        """The headers that some server is to get; never a token of the gateway itself."""
        return {
            name: presented.headers[name]
            for name in self._forwarded_headers()
            if name in presented.headers
            if not (name == "authorization" and identity.kind == "token")
        }

    def _folder(self, presented: PresentedCredentials) -> str:
        """Where the client works, if a program of the same user says so."""
        if not presented.folder:
            return ""
        # A folder of this machine: a remote client must not name one.
        is_own = presented.is_relay or (
            bool(self.local_key)
            and hmac.compare_digest((presented.local_key or "").encode(), self.local_key.encode())
        )
        folder = os.fsdecode(unquote_to_bytes(presented.folder)) if is_own else ""
        return folder if PurePath(folder).is_absolute() and "\0" not in folder else ""


def _credential(presented: PresentedCredentials) -> str:
    """The token of a request: of the header, else of `_meta`.

    Raises:
        CredentialError: There is none.
    """
    if presented.authorization is not None:
        scheme, _, token = presented.authorization.strip().partition(" ")
        # Names of schemes ignore case (RFC 9110 section 11.1).
        if scheme.lower() == "bearer" and token.strip():
            return token.strip()
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


def _prefix_of(credential: str) -> str:
    """The public part of a token; empty if it has none, as a JWT."""
    match = _TOKEN_PREFIX.match(credential)
    return match[0] if match else ""


def _word(value: object) -> str:
    """A project as it was named; empty when none was."""
    word = value.strip() if isinstance(value, str) else ""
    return "" if word in NO_PROJECT else word
