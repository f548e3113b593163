"""Web pages for the start and end of a login to a server.

A user who opens a login address made for another must not log in for them. So the page asks the
user to authenticate, and the authorization response is accepted only from the same browser.
"""

import html
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from toolgate.base.form_data import ANONYMOUS_FORM, FormTooLargeError, parse_form
from toolgate.errors import CredentialError, ToolgateError
from toolgate.security.access import Admission, PresentedCredentials
from toolgate.security.credentials import (
    CALLBACK,
    DOCUMENT,
    PAGE,
    Logins,
    describe_subject,
    is_browser_mark,
)
from toolgate.server.asgi.parsing.headers import header
from toolgate.server.asgi.parsing.messages import (
    DisconnectedError,
    Receive,
    Scope,
    Send,
    TooLargeError,
    read_body,
    send_json,
)
from toolgate.types import Caller


class LoginPages:
    """Handles requests below `/oauth/`."""

    def __init__(self, logins: Logins, admission: Admission) -> None:
        self._logins = logins
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI); `Host` and `Origin` were checked before."""
        path: str = scope["path"]
        try:
            if path == DOCUMENT and (metadata := self._logins.document()) is not None:
                await send_json(send, 200, metadata)
            elif path == CALLBACK and scope["method"] == "GET":
                await self._end(scope, send)
            elif path.startswith(PAGE) and scope["method"] in {"GET", "POST"}:
                await self._begin(scope, receive, send, path.removeprefix(PAGE))
            else:
                await _page(send, 404, "Nothing here", "There is nothing at this address.")
        except CredentialError as error:
            await _page(send, 401, "Not you", str(error))
        except ToolgateError as error:
            await _page(send, 400, "This did not work", str(error))
        except TooLargeError:
            await _page(send, 413, "Form too large", "This page accepts at most 64 KB.")
        except FormTooLargeError as error:
            await _page(send, 413, "Form too large", str(error))
        except DisconnectedError:
            return

    async def _begin(self, scope: Scope, receive: Receive, send: Send, ticket: str) -> None:
        page = self._logins.links.read(ticket)
        if scope["method"] == "GET" and self._admission.required:
            await _page(
                send,
                200,
                f"Log in at {page.server}",
                f"Toolgate is to use the server {page.server} for {describe_subject(page.subject)}."
                " Show that this is you: the token with which you use Toolgate.",
                form=f"{scope.get('root_path', '')}/console/logins/begin?"
                + urlencode({"ticket": ticket}),
            )
            return
        caller = Caller.local()
        if self._admission.required:
            body = await read_body(scope, receive, max_bytes=ANONYMOUS_FORM.max_bytes)
            token = parse_form(body, ANONYMOUS_FORM).get("token", [""])[-1]
            peer = scope.get("client")
            caller = await self._admission.admit(
                PresentedCredentials(
                    authorization=f"Bearer {token}",
                    address=str(peer[0]) if peer else "",
                    entry_point="login",
                )
            )
        browser = self._browser_of(scope) or secrets.token_urlsafe(32)
        begun = await self._logins.begin_at(caller, page, browser=browser)
        links = self._logins.links
        cookie = (
            f"{links.cookie}={browser}; HttpOnly; SameSite=Lax; Path=/; Max-Age=3600"
            f"{'; Secure' if links.is_https else ''}"
        )
        await _send(
            send,
            303,
            b"",
            {"location": begun.url, "set-cookie": cookie},
        )

    async def _end(self, scope: Scope, send: Send) -> None:
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        view = await self._logins.finish(
            state=query.get("state", ""),
            code=query.get("code", ""),
            error=query.get("error", ""),
            iss=query.get("iss"),
            browser=self._browser_of(scope),
        )
        await _page(
            send,
            200,
            f"Logged in at {view.server}",
            f"Toolgate can use {view.server} for {describe_subject(view.subject)} now."
            " You can close this window.",
        )

    def _browser_of(self, scope: Scope) -> str:
        """Return the secret in this browser's cookie; empty if there is none."""
        try:
            cookies = SimpleCookie(header(scope, b"cookie") or "")
        except CookieError:
            return ""
        cookie = cookies.get(self._logins.links.cookie)
        return cookie.value if cookie is not None and is_browser_mark(cookie.value) else ""


async def _page(send: Send, status: int, title: str, text: str, *, form: str = "") -> None:
    """Send a page; `form` adds a token form, and a link to this address of the console."""
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{html.escape(title)} - Toolgate</title></head><body><main>",
        f"<h1>{html.escape(title)}</h1><p>{html.escape(text)}</p>",
    ]
    if form:
        parts.append(
            "<form method=post><p><label>Token <input type=password name=token required"
            " autocomplete=off></label></p><p><button>Go on</button></p></form>"
            f"<p><a href='{html.escape(form)}'>Go on as who is logged in to the console</a></p>"
        )
    parts.append("</main></body></html>")
    await _send(send, status, "".join(parts).encode(), {"content-type": "text/html; charset=utf-8"})


async def _send(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    raw = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
    raw.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
