"""One request for a console page: caller, form fields, response."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from toolgate.app.app import App
from toolgate.base.form_data import USER_FORM, FormLimits
from toolgate.console.counts_cache import CountsCache
from toolgate.console.sessions import ConsoleSessions, set_cookie
from toolgate.errors import ToolgateError
from toolgate.gateway.gateway import Gateway
from toolgate.types import DEFAULT_PROJECT, Caller, ServerStatus

FLASH_COOKIE = "toolgate_flash"
"""Cookie with a message that the next page shows once."""

_HIDDEN = frozenset({"csrf", "do", "state"})
"""Form fields that the page sets and users do not fill in."""

_QUOTED_CHARS = 40
"""Characters of a wrong value that every error message quotes in any case."""

_FLASH_CHARS = 600
"""Length limit of a message in the cookie (chosen: a cookie has room for 4,096 bytes)."""

_MOST_PAGE = 100_000
"""Highest page number (chosen: limits what a made-up number makes the store read)."""


@dataclass(frozen=True, kw_only=True)
class Badge:
    """A count next to a page in the menu."""

    count: int
    """The count."""

    words: str
    """What is counted, such as `down`."""

    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """Query parameters that make the page show only what is counted."""

    is_bad: bool = False
    """Whether it needs attention."""


class PageRequest:
    """A request for a console page: its caller and form, and how to answer it."""

    def __init__(
        self,
        *,
        app: App,
        http: Request,
        render: "PageRenderer",
        caller: Caller,
        csrf: str,
        form: Mapping[str, list[str]],
        figures: CountsCache,
        sessions: ConsoleSessions,
        is_known: bool = True,
        limits: FormLimits = USER_FORM,
    ) -> None:
        self.app = app
        self.http = http
        self.caller = caller
        """Who sends the request."""
        self.csrf = csrf
        """CSRF token of the forms of this page."""
        self.is_known = is_known
        """Whether the caller is authenticated, or no login is required."""
        self.problem: ToolgateError | None = None
        """Why the submitted form was rejected; shown on the page."""
        self.is_acting = False
        """Whether the action of a submitted form has started."""
        self.sessions = sessions
        """Who is logged in to the console."""
        self.badges: Mapping[str, tuple[Badge, ...]] = {}
        """Counts shown in the menu, by page."""
        self.figures = figures
        """Cached counts over the whole audit log."""
        self._render = render
        self._form = form
        self._limits = limits
        self._statuses: list[ServerStatus] | None = None
        self._waiting_approvals: int | None = None

    @property
    def gateway(self) -> Gateway:
        """The gateway that the console manages."""
        return self.app.gateway

    @property
    def manages(self) -> bool:
        """Whether the caller may manage the gateway."""
        return self.gateway.visible.manages(self.caller)

    def server_statuses(self) -> list[ServerStatus]:
        """State of every server that the caller may see, cached for this request."""
        if self._statuses is None:
            self._statuses = self.gateway.servers.statuses(self.caller)
        return self._statuses

    async def count_waiting_approvals(self) -> int:
        """Calls that wait for a decision and that the caller may see, counted once.

        Raises:
            StoreError: The store cannot be read.
        """
        if self._waiting_approvals is None:
            waiting = await self.gateway.approvals.search(self.caller, state="waiting")
            self._waiting_approvals = len(waiting)
        return self._waiting_approvals

    async def token_names(self) -> dict[str, str]:
        """Names of the tokens, by the caller ids in audit records.

        Raises:
            ForbiddenError: The caller may not manage tokens.
        """
        tokens = await self.gateway.admin.tokens(self.caller)
        return {f"token:{token.token_id}": token.name for token in tokens}

    @property
    def base(self) -> str:
        """Path of the console as the browser sees it, including a proxy's prefix."""
        return f"{self.http.scope.get('root_path', '')}/console"

    @property
    def project(self) -> str:
        """The selected project; empty: none."""
        return "" if self.caller.project_id == DEFAULT_PROJECT else self.caller.project_id

    @property
    def wrong_field(self) -> str:
        """The field that the problem names, or whose value it quotes; empty if unknown."""
        if self.problem is None:
            return ""
        message = self.problem.failed
        filled = {name: values for name, values in self._form.items() if name not in _HIDDEN}
        for name, values in filled.items():
            lines = [line for value in values for line in value.splitlines()]
            parts = [part.strip() for line in lines for part in (line, *line.split(","))]
            if any(part and repr(part)[:_QUOTED_CHARS] in message for part in parts):
                return name
        return next((name for name in filled if message.startswith(f"{name} ")), "")

    # Reading the request

    def query_value(self, name: str, default: str = "") -> str:
        """Return a query parameter."""
        return self.http.query_params.get(name, default)

    def value(self, name: str, default: str = "") -> str:
        """Return a form field, or else the query parameter of that name."""
        values = self._form.get(name)
        return values[-1] if values else self.query_value(name, default)

    def form_values(self, name: str) -> list[str]:
        """Return all values of a form field that may be repeated."""
        return list(self._form.get(name, ()))

    def has_field(self, name: str) -> bool:
        """Whether the submitted form has a field, even an empty one."""
        return name in self._form

    def sent_fields(self) -> list[tuple[str, str]]:
        """All form fields except the CSRF token; none if they are too large to repeat."""
        return [] if self.is_too_large_to_repeat else self._sent_fields()

    @property
    def is_too_large_to_repeat(self) -> bool:
        """Whether this sender's form is larger than what pages repeat for such a sender."""
        text = "".join(name + value for name, value in self._sent_fields())
        return self.repeated(text) != text

    def _sent_fields(self) -> list[tuple[str, str]]:
        return [
            (name, value)
            for name, values in self._form.items()
            if name != "csrf"
            for value in values
        ]

    def repeated(self, text: str) -> str:
        """Return input for a page to repeat; empty if it is too large for this sender."""
        return text if len(escape(text)) <= self._limits.max_repeated else ""

    @property
    def was_sent(self) -> bool:
        """Whether a form was submitted."""
        return bool(self._form)

    def page_number(self) -> int:
        """The requested page of a long list, from 1."""
        text = self.query_value("page", "1")
        return max(1, min(int(text), _MOST_PAGE)) if text.isdecimal() else 1

    # Writing the response

    def url(self, path: str = "", /, **query: object) -> str:
        """Return the URL of a page. Empty parameters are left out."""
        parameters = {name: str(value) for name, value in query.items() if value not in ("", None)}
        address = f"{self.base}/{quote(path)}" if path else self.base
        return f"{address}?{urlencode(parameters)}" if parameters else address

    def url_within(self, target: str) -> str:
        """Return the URL of a page from its path and query below the console."""
        path, _, query = target.partition("?")
        return self.url(path.strip("/")) + (f"?{query}" if query else "")

    def page(self, template: str, /, *, status: int = 0, **values: object) -> Response:
        """Render a template."""
        if not status:
            status = 200 if self.problem is None else 400
        return HTMLResponse(self._render(self, template, values), status_code=status)

    def go(self, path: str, /, *, message: str = "", **query: object) -> Response:
        """Redirect to a page, which then shows the message once."""
        response = RedirectResponse(self.url(path, **query), status_code=303)
        if message:
            self.flash(response, message)
        return response

    def go_within(self, path: str) -> Response:
        """Redirect to a path below the console; other hosts cannot be reached this way."""
        return RedirectResponse(self.url_within(path), status_code=303)

    def flash(self, response: Response, message: str) -> None:
        """Show a message once, on the next page."""
        text = quote(message[:_FLASH_CHARS])
        set_cookie(response, self.http, FLASH_COOKIE, text, max_age=60)


PageRenderer: TypeAlias = Callable[[PageRequest, str, Mapping[str, object]], str]
"""Renders a page to HTML: takes the request, the name of the template, and its values."""
