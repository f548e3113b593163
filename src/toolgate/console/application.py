"""The console's ASGI application: routing, sessions, errors."""

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from toolgate.app.app import App
from toolgate.base.form_data import (
    ANONYMOUS_FORM,
    USER_FORM,
    FormLimits,
    FormTooLargeError,
    parse_form,
)
from toolgate.console.counts_cache import CountsCache
from toolgate.console.navigation import waiting_badges
from toolgate.console.render import STATIC, Renderer, static_file
from toolgate.console.request import FLASH_COOKIE, PageRequest
from toolgate.console.route import Route
from toolgate.console.sessions import COOKIE, ConsoleSessions, cookie_of, set_cookie
from toolgate.errors import (
    AccessError,
    CatalogError,
    CredentialError,
    ForbiddenError,
    LimitError,
    StoreError,
    ToolgateError,
)
from toolgate.gateway.gateway import Gateway
from toolgate.store import StoreDeadline, store_deadline
from toolgate.types import Caller, Identity

log = logging.getLogger(__name__)

PAGES = (
    "home",
    "command_palette",
    "servers",
    "tools",
    "search",
    "intents",
    "packs",
    "access.projects",
    "access.tokens",
    "access.permissions",
    "access.guards",
    "access.credentials",
    "connections",
    "approvals",
    "audit",
    "cost",
    "models.chat",
    "models.chat_turn",
    "models.documents",
    "models.prompts",
    "models.evaluation",
    "settings",
    "access.login",
)
"""Modules with routes."""

_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    b" connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = ((b"content-security-policy", _POLICY), (b"referrer-policy", b"same-origin"))
"""With `no-referrer`, browsers would send our own forms with `Origin: null`."""

_SLOW_S = 20.0
"""Seconds after which a page times out (chosen)."""
_BEAT_S = 15.0
"""Seconds between two keep-alive comments on a stream (chosen: proxies close streams that are
silent for 30 s or more)."""
_GATHER_S = 0.25
"""Seconds during which changes are collected before a page is notified (chosen: not noticeable)."""
_GATHER_CALLS_S = 1.0
"""The same for calls, which are much more frequent."""
_CALLS = "calls-changed"
_NOBODY = Identity(caller_id="", kind="nobody", projects=())


class Console:
    """The ASGI application under `/console`."""

    def __init__(self, app: App, *, tell: Callable[[Caller], object]) -> None:
        """Create the console.

        Args:
            app: The application that it manages.
            tell: Called with the caller of a request once it is authenticated.
        """
        self._app = app
        self._tell = tell
        self._renderer = Renderer()
        self._sessions = ConsoleSessions(app.store, app.gateway.admission)
        self._routes = {route.path: route for name in PAGES for route in _routes_of(name)}
        self._stopping = asyncio.Event()
        self._figures = CountsCache(app.store)

    def end_streams(self) -> None:
        """Close the event streams, so that the process can exit."""
        self._stopping.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request (ASGI), after `Host` and `Origin` have been checked."""
        http = Request(scope, receive)
        try:
            response = await self._respond(http)
        except ClientDisconnect:
            return
        response.raw_headers.extend(_HEADERS)
        await response(scope, receive, send)

    async def turn_away(self, scope: Any, receive: Any, send: Any, error: CredentialError) -> None:
        """Respond to a request that failed before login with a page that says why."""
        request = self._anonymous_request(Request(scope, receive))
        response = self._failed(request, 401, error.failed, error.hint)
        response.raw_headers.extend(_HEADERS)
        await response(scope, receive, send)

    def _anonymous_request(
        self,
        http: Request,
        *,
        form: Mapping[str, list[str]] | None = None,
        limits: FormLimits = ANONYMOUS_FORM,
    ) -> PageRequest:
        return PageRequest(
            app=self._app,
            http=http,
            render=self._renderer.page,
            caller=Caller(caller_id="", identity=_NOBODY),
            # Until this browser's CSRF token is known, forms keep the token that they were sent
            # with.
            csrf=((form or {}).get("csrf") or [""])[-1],
            form=form or {},
            figures=self._figures,
            sessions=self._sessions,
            is_known=False,
            limits=limits,
        )

    async def _respond(self, http: Request) -> Response:
        path = http.scope["path"].removeprefix("/console").strip("/")
        if path.startswith("static/"):
            return _static(path.removeprefix("static/"), is_fresh="v" in http.query_params)
        cookie = cookie_of(http, COOKIE)
        fresh = "" if cookie else self._sessions.new_cookie()
        route = self._routes.get(path)
        wait_s = self._app.settings.serve.console_wait_s
        with store_deadline(wait_s, each=route is not None and route.is_long) as waited:
            # Before the form is read: its size limit depends on the caller.
            login = await self._log_in(http, cookie or fresh)
            limits = self._form_limits(login, cookie)
            try:
                form = await _read_form(http, limits)
            except FormTooLargeError as error:
                return PlainTextResponse(str(error), status_code=413)
            request = self._anonymous_request(http, form=form, limits=limits)
            try:
                request.csrf = await self._sessions.csrf(cookie or fresh)
                response = await self._answer(request, path, route, cookie or fresh, waited, login)
            except StoreError as error:
                response = self._unfinished(request, path, route, error, waited)
            except TimeoutError:
                response = self._failed(
                    request,
                    503,
                    "This page took too long to load.",
                    "The gateway is busy. If the page has a period or a filter, choose a shorter "
                    "period or a narrower filter.",
                    again=_with_query(request, path) if http.method == "GET" else None,
                )
            except Exception:
                log.exception("page failed")
                response = self._failed(request, 500, "Internal error.", "See the log.")
        if fresh and COOKIE not in response.headers.get("set-cookie", ""):
            self._sessions.set_cookie(response, fresh, http)
        if cookie_of(http, FLASH_COOKIE) and response.status_code < 300:
            set_cookie(response, http, FLASH_COOKIE, "", max_age=0)
        return response

    async def _log_in(self, http: Request, cookie: str) -> Caller | ToolgateError:
        """Return the caller of a request, or the error if authentication failed."""
        try:
            return await self._sessions.caller_of(http, cookie)
        except (AccessError, StoreError) as error:
            return error

    def _form_limits(self, login: Caller | ToolgateError, cookie: str) -> FormLimits:
        """Return the size limits of a form; known sessions keep the larger if the store is down."""
        if isinstance(login, StoreError):
            return USER_FORM if self._sessions.was_accepted(cookie) else ANONYMOUS_FORM
        return ANONYMOUS_FORM if isinstance(login, CredentialError) else USER_FORM

    async def _answer(
        self,
        request: PageRequest,
        path: str,
        route: Route | None,
        cookie: str,
        waited: StoreDeadline,
        login: Caller | ToolgateError,
    ) -> Response:
        try:
            if isinstance(login, ToolgateError):
                raise login
            request.caller = login
            request.is_known = True
            self._tell(request.caller)
        except CredentialError as error:
            if path == "events":
                return PlainTextResponse("Log in first.", status_code=401)
            if route is None or not route.is_open:
                return self._login(request, path, error)
        except AccessError as error:
            return self._refused(request, error)
        if path == "events":
            # Subscribe before the response starts, so that no change is missed in between.
            events = self._events(request, cookie, _Changes(self._app.gateway))
            return StreamingResponse(events, media_type="text/event-stream")
        if "hx-request" not in request.http.headers or path == "navigation":
            request.badges = await waiting_badges(request)
        if route is None:
            return self._failed(request, 404, "Page not found.", "Use the menu to find a page.")
        if request.http.method in {"GET", "HEAD"}:
            return await self._page(request, route)
        return await self._acted(request, route, waited)

    async def _page(self, request: PageRequest, route: Route) -> Response:
        if route.show is None:
            return self._failed(request, 405, "Page not found.", "Use the menu to find a page.")
        try:
            with anyio.fail_after(_SLOW_S):
                return await route.show(request)
        except StoreError:
            raise
        except ToolgateError as error:
            return self._refused(request, error)

    async def _acted(self, request: PageRequest, route: Route, waited: StoreDeadline) -> Response:
        if route.act is None:
            return self._failed(request, 405, "This page does not accept forms.", "")
        if not _is_genuine(request):
            if request.http.headers.get("sec-fetch-site") == "same-origin":
                return self._from_earlier(request, route)
            return self._failed(
                request,
                403,
                "The form does not belong to your current session.",
                "Nothing was changed. Enable cookies, reload the page and submit the form again.",
            )
        request.is_acting = True
        waited.forget_saved()
        try:
            return await route.act(request)
        except StoreError:
            raise
        except ToolgateError as error:
            if route.show is None:
                return self._refused(request, error)
            request.problem = error
        return await self._page(request, route)

    def _login(self, request: PageRequest, path: str, error: CredentialError) -> Response:
        """Show the login page, and keep the submitted form until after the login."""
        if request.http.method in {"GET", "HEAD"}:
            target = request.url("login", next=_with_query(request, path))
            return RedirectResponse(target, status_code=303)
        if error.wait_s:
            request.problem = error
        sent = ""
        if not request.is_too_large_to_repeat:
            typed = [_with_query(request, path), request.sent_fields()]
            sent = request.repeated(json.dumps(typed))
        return request.page("login.html", status=401, next=path, sent=sent, has_ended=True)

    def _refused(self, request: PageRequest, error: ToolgateError) -> Response:
        status = 400
        if isinstance(error, (ForbiddenError,)):
            status = 403
        elif isinstance(error, LimitError):
            status = 429
        elif isinstance(error, CatalogError):
            status = 404
        summary = error.summary(with_detail=request.is_known and request.manages)
        return self._failed(request, status, summary, error.hint)

    def _unfinished(
        self,
        request: PageRequest,
        path: str,
        route: Route | None,
        error: StoreError,
        waited: StoreDeadline,
    ) -> Response:
        """Say that the store is slow or down and whether anything was done; keep the input."""
        stopped = error.summary(with_detail=request.is_known and request.manages)
        failed = "The store is slow." if waited.was_slow else stopped
        again = _with_query(request, path)
        log.warning("page without store", extra={"path": path, "error": error.full_text})
        reasons = [stopped, error.hint] if waited.was_slow else [error.hint]
        if request.http.method in {"GET", "HEAD"}:
            hint = " ".join(filter(None, [*reasons, "Nothing was saved."]))
            return self._failed(request, 503, failed, hint, again=again)
        doubt = ""
        if request.is_acting:
            doubt = _doubt(waited, may_act=route is not None and route.acts_outside)
        response = request.page(
            "again.html",
            status=503,
            title=doubt or "Nothing was saved",
            reasons=[failed, *reasons],
            doubtful=bool(doubt),
            path=again,
            back=_page_of(request) or again,
            fields=request.sent_fields(),
            is_cut=request.is_too_large_to_repeat,
        )
        response.headers["cache-control"] = "no-store"
        return response

    def _from_earlier(self, request: PageRequest, route: Route) -> Response:
        """Keep the input of a form that was loaded before the browser's last login."""
        return request.page(
            "again.html",
            status=403,
            title="Nothing was saved",
            reasons=[
                "This page was loaded before your last login, or cookies are disabled. Check your "
                "input and submit it again."
            ],
            doubtful=False,
            path=_with_query(request, route.path),
            back=_page_of(request) or route.path,
            fields=request.sent_fields(),
            is_cut=request.is_too_large_to_repeat,
        )

    def _failed(
        self, request: PageRequest, status: int, failed: str, hint: str, *, again: str | None = None
    ) -> Response:
        return request.page(
            "failed.html", status=status, failed=failed, hint=hint, code=status, again=again
        )

    async def _events(
        self, request: PageRequest, cookie: str, changes: "_Changes"
    ) -> AsyncGenerator[str]:
        """Yield the names of changes as server-sent events until the session ends."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            yield "retry: 3000\n\n"
            while not self._stopping.is_set():
                waiting = asyncio.ensure_future(changes.woken.wait())
                try:
                    await asyncio.wait(
                        {waiting, stopping}, timeout=_BEAT_S, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    waiting.cancel()
                if changes.woken.is_set():
                    # Simultaneous changes are sent together; calls start and end all the time.
                    await anyio.sleep(_GATHER_S if changes.is_rare else _GATHER_CALLS_S)
                    yield "".join(f"event: {name}\ndata: {name}\n\n" for name in changes.take())
                    continue
                try:
                    await self._sessions.caller_of(request.http, cookie)
                except ToolgateError:
                    return
                yield ": still here\n\n"
        finally:
            stopping.cancel()
            changes.forget()


class _Changes:
    """Changes that have not been sent to a page yet."""

    def __init__(self, gateway: Gateway) -> None:
        self.woken = asyncio.Event()
        self._names: set[str] = set()
        self._ends = [
            gateway.changes.on_change(lambda change: self._note(f"{change.kind}-changed")),
            gateway.changes.on_access_change(lambda: self._note("access-changed")),
            gateway.manage.servers.on_state(lambda: self._note("servers-changed")),
            gateway.approvals.on_change(lambda _: self._note("approvals-changed")),
            gateway.calls.on_running(lambda: self._note(_CALLS)),
        ]

    @property
    def is_rare(self) -> bool:
        """Whether there are changes other than started or ended calls."""
        return self._names != {_CALLS}

    def _note(self, name: str) -> None:
        self._names.add(name)
        self.woken.set()

    def take(self) -> list[str]:
        """Return and clear the names."""
        names = sorted(self._names)
        self._names.clear()
        self.woken.clear()
        return names

    def forget(self) -> None:
        """Stop listening for changes."""
        for end in self._ends:
            end()


def _doubt(waited: StoreDeadline, *, may_act: bool) -> str:
    """Return what a form that the store delayed may have done; empty: nothing."""
    if may_act:
        return "The action may have run"
    if waited.may_have_saved:
        return "It may have been saved"
    return "Only part of it was saved" if waited.has_saved else ""


def _with_query(request: PageRequest, path: str) -> str:
    """Add the query of the request to a path below the console."""
    query = request.repeated(request.http.url.query)
    return f"{path}?{query}" if query else path


def _page_of(request: PageRequest) -> str:
    """Return the page of a submitted form, below the console's URL; empty if unknown."""
    parts = urlsplit(request.http.headers.get("referer", ""))
    within = parts.path.startswith(f"{request.base}/")
    if not within or parts.netloc != request.http.headers.get("host"):
        return ""
    path = unquote(parts.path.removeprefix(f"{request.base}/"))
    return request.repeated(f"{path}?{parts.query}" if parts.query else path)


def _routes_of(name: str) -> tuple[Route, ...]:
    return import_module(f"toolgate.console.pages.{name}").ROUTES


def _static(name: str, *, is_fresh: bool) -> Response:
    if name not in STATIC:
        return PlainTextResponse("File not found.", status_code=404)
    cache_control = "public, max-age=31536000, immutable" if is_fresh else "no-cache"
    return Response(
        static_file(name), media_type=STATIC[name], headers={"cache-control": cache_control}
    )


async def _read_form(http: Request, limits: FormLimits) -> Mapping[str, list[str]]:
    """Read the fields of a submitted form.

    Raises:
        FormTooLargeError: It is larger than the limits.
    """
    if http.method != "POST":
        return {}
    body = bytearray()
    async for piece in http.stream():
        body += piece
        limits.check_size(len(body))
    if len(body) <= ANONYMOUS_FORM.max_bytes:
        return parse_form(bytes(body), limits)
    # Parsing megabytes would block the event loop for too long.
    return await anyio.to_thread.run_sync(parse_form, bytes(body), limits)


def _is_genuine(request: PageRequest) -> bool:
    """Whether a form was sent from a page that this browser loaded from the console."""
    site = request.http.headers.get("sec-fetch-site", "same-origin")
    return site in {"same-origin", "none"} and hmac.compare_digest(
        request.value("csrf").encode(), request.csrf.encode()
    )
