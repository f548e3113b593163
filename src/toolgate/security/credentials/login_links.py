"""Signed links to the pages where people log in to servers."""

import time
from collections.abc import Callable

from toolgate.base.signing import Signer
from toolgate.errors import ArgumentError, HandleError
from toolgate.security.credentials.login_view import LoginPage
from toolgate.settings import CredentialSettings
from toolgate.types import Json

PAGE = "/oauth/login/"
"""Path of the login pages; a signed ticket follows."""

_PURPOSE = "login"


class LoginLinks:
    """Creates and reads links to login pages.

    A ticket is signed and not stored, so offering logins fills no table.
    """

    def __init__(
        self,
        signer: Signer,
        settings: Callable[[], CredentialSettings],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare to create links.

        Args:
            signer: Signs the tickets.
            settings: Table `[credentials]`.
            clock: Seconds since 1970.
        """
        self._signer = signer
        self._settings = settings
        self._clock = clock
        self.base = ""
        """The gateway's address for browsers, without a trailing slash; empty if it has none."""

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the gateway over TLS."""
        return self.base.startswith("https://")

    @property
    def cookie(self) -> str:
        """Name of the cookie with a secret of one browser, so that only it can finish its login.

        Other hosts of the same domain cannot set a cookie with the prefix `__Host-`.
        """
        return f"{'__Host-' if self.is_https else ''}toolgate_login"

    def url(self, server: str, subject: str) -> str:
        """Return the page where a subject logs in to a server.

        Raises:
            ArgumentError: The gateway has no address for browsers.
        """
        if not self.base:
            raise ArgumentError(
                "This gateway has no address that a browser could open.",
                hint="Give redirect_uri, an address on your own machine, or run: toolgate serve",
            )
        until = self._clock() + self._settings().login_s
        ticket: Json = {"server": server, "subject": subject, "until": round(until)}
        return f"{self.base}{PAGE}{self._signer.sign(_PURPOSE, ticket)}"

    def url_if_any(self, server: str, subject: str) -> str:
        """Return the same as `url`, or an empty text if the gateway has no address for browsers."""
        return self.url(server, subject) if self.base else ""

    def approvals_page(self) -> str:
        """Return the console page where people approve calls; empty if there is none."""
        return f"{self.base}/console/approvals" if self.base else ""

    def read(self, ticket: str) -> LoginPage:
        """Return the login that a link is for.

        Raises:
            HandleError: The ticket was not created here, or has expired.
        """
        payload = self._signer.check(_PURPOSE, ticket)
        if float(payload["until"]) < self._clock():
            raise HandleError(
                "This login link has expired.", hint="Call the tool again to get a new one."
            )
        return LoginPage(server=str(payload["server"]), subject=str(payload["subject"]))
