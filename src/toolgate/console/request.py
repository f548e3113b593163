"""One request for a console page: caller, form fields, response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from toolgate.app.app import App
from toolgate.console.counts_cache import CountsCache
from toolgate.errors import ToolgateError
from toolgate.gateway.gateway import Gateway
from toolgate.types import DEFAULT_PROJECT, Caller

if TYPE_CHECKING:
    from toolgate.console.application import Console
    from toolgate.console.render import Renderer

__all__ = ["SAID", "Badge", "Visit"]

SAID = "toolgate_said"
"""Cookie with the sentence that the next page shows once."""

_HIDDEN = frozenset({"csrf", "do", "state"})
"""Fields that nobody types."""

_QUOTED_CHARS = 40
"""Characters of what was typed that each error message quotes at least."""

_SAID_CHARS = 600
"""Characters of a message that a redirect carries; chosen: a cookie has room for 4,096 bytes."""
_MOST_PAGE = 100_000
"""Pages; chosen: bounds what is read for a number that somebody made up."""


@dataclass(frozen=True, kw_only=True)
class Badge:
    """A count beside a page of the menu."""

    count: int
    """How many."""

    words: str
    """What is counted, such as `down`."""

    query: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the page is asked for, to show just these."""

    is_bad: bool = False
    """Whether something is wrong or somebody waits."""


class Visit:
    """A request, understood. Pages get one and give a response."""

    def __init__(
        self,
        *,
        app: App,
        request: Request,
        renderer: Renderer,
        caller: Caller,
        csrf: str,
        form: Mapping[str, list[str]],
        figures: CountsCache,
        is_known: bool = True,
    ) -> None:
        self.app = app
        self.request = request
        self.caller = caller
        """Who asks."""
        self.csrf = csrf
        """What each form carries, so that no other site can send one."""
        self.is_known = is_known
        """Whether somebody has logged in, or nobody has to."""
        self.problem: ToolgateError | None = None
        """Why what was asked for was not done; the page shows it."""
        self.is_acting = False
        """Whether a form that was sent has begun to do something."""
        self.console: Console | None = None
        self.badges: Mapping[str, tuple[Badge, ...]] = {}
        """What the menu counts, by page."""
        self.figures = figures
        """What is counted over all of the audit."""
        self._renderer = renderer
        self._form = form

    @property
    def gateway(self) -> Gateway:
        """The verbs."""
        return self.app.gateway

    @property
    def manages(self) -> bool:
        """Whether the caller looks after the gateway."""
        return self.gateway.visible.manages(self.caller)

    async def token_names(self) -> dict[str, str]:
        """Names of those who have tokens, by the ids that records have of them.

        Raises:
            ForbiddenError: The caller may not look after tokens.
        """
        tokens = await self.gateway.admin.tokens(self.caller)
        return {f"token:{token.token_id}": token.name for token in tokens}

    @property
    def base(self) -> str:
        """Address of the console, as the browser knows it."""
        return f"{self.request.scope.get('root_path', '')}/console"

    @property
    def project(self) -> str:
        """The project that is looked at; empty: none."""
        return "" if self.caller.project_id == DEFAULT_PROJECT else self.caller.project_id

    @property
    def wrong_field(self) -> str:
        """The field that the problem is about, as it quotes what was typed; empty: not known."""
        if self.problem is None:
            return ""
        said = self.problem.failed
        for name, values in self._form.items():
            for value in values:
                lines = [line.strip() for line in value.splitlines()] or [value]
                if name not in _HIDDEN and any(
                    line and repr(line)[:_QUOTED_CHARS] in said for line in lines
                ):
                    return name
        return ""

    # What was asked

    def asked(self, name: str, default: str = "") -> str:
        """A value of the address."""
        return self.request.query_params.get(name, default)

    def typed(self, name: str, default: str = "") -> str:
        """A value of the form that was sent, else of the address."""
        values = self._form.get(name)
        return values[-1] if values else self.asked(name, default)

    def all_typed(self, name: str) -> list[str]:
        """All values of a field that may come more than once."""
        return list(self._form.get(name, ()))

    def has_field(self, name: str) -> bool:
        """Whether the form that was sent has a field, be it empty."""
        return name in self._form

    def sent_fields(self) -> list[tuple[str, str]]:
        """All fields of the form, but what only this session could send."""
        return [
            (name, value)
            for name, values in self._form.items()
            if name != "csrf"
            for value in values
        ]

    @property
    def was_sent(self) -> bool:
        """Whether a form came."""
        return bool(self._form)

    def page_number(self) -> int:
        """Which page of a long list is wanted, from 1."""
        text = self.asked("page", "1")
        return max(1, min(int(text), _MOST_PAGE)) if text.isdecimal() else 1

    # What is answered

    def url(self, path: str = "", /, **query: object) -> str:
        """The address of a page; values that are empty are left out."""
        parameters = {name: str(value) for name, value in query.items() if value not in ("", None)}
        address = f"{self.base}/{quote(path)}" if path else self.base
        return f"{address}?{urlencode(parameters)}" if parameters else address

    def url_within(self, target: str) -> str:
        """The address of a page, from what stands behind that of the console."""
        path, _, query = target.partition("?")
        return self.url(path.strip("/")) + (f"?{query}" if query else "")

    def page(self, template: str, /, *, status: int = 0, **values: object) -> Response:
        """A page."""
        if not status:
            status = 200 if self.problem is None else 400
        return HTMLResponse(self._renderer.page(self, template, values), status_code=status)

    def go(self, path: str, /, *, message: str = "", **query: object) -> Response:
        """Send the browser to a page, which then says what was done."""
        response = RedirectResponse(self.url(path, **query), status_code=303)
        if message:
            self.say(response, message)
        return response

    def go_within(self, path: str) -> Response:
        """Send the browser to a page that an address of ours names, never anywhere else."""
        return RedirectResponse(self.url_within(path), status_code=303)

    def say(self, response: Response, message: str) -> None:
        """Have the next page say something, once."""
        response.set_cookie(
            SAID,
            quote(message[:_SAID_CHARS]),
            max_age=60,
            path=self.base,
            httponly=True,
            samesite="lax",
            secure=self.request.url.scheme == "https",
        )
