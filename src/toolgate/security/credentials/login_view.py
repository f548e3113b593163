"""What people see of stored logins, and of a login that they begin."""

from collections.abc import Callable
from dataclasses import dataclass

from toolgate.security.credentials.vault import DecryptedCredential
from toolgate.types import Caller

__all__ = ["LoginPage", "LoginRights", "LoginView", "StartedLogin", "login_view"]


@dataclass(frozen=True, kw_only=True)
class LoginView:
    """A credential as people see it; nothing of it is secret."""

    server: str
    """The server."""

    subject: str
    """Whose it is: empty for everybody, `user:NAME`, `caller:ID` or `project:NAME`."""

    form: str
    """`oauth` or `static`."""

    state: str
    """`good`, or `ended`: somebody has to log in again."""

    reason: str = ""
    """Why it has ended."""

    scopes: tuple[str, ...] = ()
    """What it allows."""

    issuer: str = ""
    """The authorization server."""

    names: tuple[str, ...] = ()
    """Names of the headers and variables that were given."""

    expires_at: str | None = None
    """When the present token ends; UTC, ISO 8601."""

    renews: bool = False
    """Whether it is renewed by itself."""

    by: str = ""
    """Who logged in or gave it."""

    updated_at: str = ""
    """When it was written last; UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class StartedLogin:
    """A login that has begun."""

    url: str
    """Where a person goes on, with a browser."""

    state: str = ""
    """Names the login in the answer; empty where `url` is a page of the gateway."""

    expires_in_s: float = 0.0
    """Seconds that there are for it."""


@dataclass(frozen=True, kw_only=True)
class LoginPage:
    """What the page of a login is about."""

    server: str
    """The server."""

    subject: str
    """Whose login it is."""


@dataclass(frozen=True, kw_only=True)
class LoginRights:
    """What has to be asked before anything is done."""

    manages: Callable[[Caller], bool]
    """Whether somebody looks after servers."""

    reaches: Callable[[Caller, str], bool]
    """Whether a server is there for somebody."""


def login_view(credential: DecryptedCredential) -> LoginView:
    """What may be shown of a credential."""
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
