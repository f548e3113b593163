"""Views of stored logins and of started ones, for people."""

from collections.abc import Callable
from dataclasses import dataclass

from toolgate.security.credentials.vault import DecryptedCredential
from toolgate.types import Caller


@dataclass(frozen=True, kw_only=True)
class LoginView:
    """A credential as shown to people, without anything secret."""

    server: str
    """The server."""

    subject: str
    """Whose it is: empty for everybody, `user:NAME`, `caller:ID` or `project:NAME`."""

    form: str
    """`oauth` or `static`."""

    state: str
    """`good`, or `ended`: somebody has to log in again."""

    reason: str = ""
    """Why the login has ended."""

    scopes: tuple[str, ...] = ()
    """The granted scopes."""

    issuer: str = ""
    """The authorization server."""

    names: tuple[str, ...] = ()
    """Names of the headers and variables that were set."""

    expires_at: str | None = None
    """When the current token expires; UTC, ISO 8601."""

    renews: bool = False
    """Whether it is renewed automatically."""

    by: str = ""
    """Who logged in or set it."""

    updated_at: str = ""
    """When it was last written; UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StartedLogin:
    """A login that was started."""

    url: str
    """Where a person continues in a browser."""

    state: str = ""
    """Identifies the login in the response; empty if `url` is a page of the gateway."""

    expires_in_s: float = 0.0
    """Seconds left to complete it."""


@dataclass(frozen=True, kw_only=True)
class LoginPage:
    """The login that a login page is for."""

    server: str
    """The server."""

    subject: str
    """Whose login it is."""


@dataclass(frozen=True, kw_only=True)
class LoginRights:
    """The checks required before anything is done."""

    manages: Callable[[Caller], bool]
    """Return whether a caller manages servers."""

    reaches: Callable[[Caller, str], bool]
    """Return whether a caller has access to a server."""


def login_view(credential: DecryptedCredential) -> LoginView:
    """Return the details of a credential that may be shown."""
    details = credential.details
    return LoginView(
        server=credential.key.server,
        subject=credential.key.subject,
        form=str(details.get("form") or ""),
        state=str(details.get("state") or ""),
        reason=str(details.get("reason") or ""),
        scopes=tuple(details.get("scopes") or ()),
        issuer=str(details.get("issuer") or ""),
        names=tuple(details.get("names") or ()),
        expires_at=details.get("expires_at"),
        renews=bool(details.get("renews")),
        by=str(details.get("by") or ""),
        updated_at=str(details.get("updated_at") or ""),
    )
