"""Log in to a server from the command line, with a browser and a local callback."""

import asyncio
import html
import sys
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from threading import Thread
from urllib.parse import parse_qsl, urlsplit

import anyio

from toolgate.cli.client._gateway_client import GatewayClient, path_of
from toolgate.cli.terminal._output import note
from toolgate.errors import PortTakenError, TimedOutError
from toolgate.settings import current_environment
from toolgate.types import Json

_PORTS = range(7421, 7431)
"""Tried first, since client registration at an authorization server includes the callback URL."""

_PATH = "/callback"
_MAX_LINE_BYTES = 16 * 2**10
"""Maximum bytes of a request line (chosen: far above the codes of sign-in services)."""

_ANSWER_FIELDS = ("state", "code", "iss", "error")
"""Query parameters of the redirect that the gateway needs."""


async def log_in(
    gateway: GatewayClient, name: str, *, user: str, project: str, browser: bool
) -> Json:
    """Log in to a server; return the new credential without its secrets.

    Raises:
        TimedOutError: Nobody logged in in time.
        GatewayResponseError: The login was declined or failed.
    """
    async with _callback_server() as (port, answers):
        login_request = {"redirect_uri": f"http://127.0.0.1:{port}{_PATH}"}
        login_request |= {
            key: value for key, value in (("user", user), ("project", project)) if value
        }
        login = await gateway.request("POST", path_of("servers", name, "login"), login_request)
        url, state = str(login["url"]), str(login["state"])
        note(f"Open this URL in a browser and log in:\n\n{url}\n")
        if browser and _has_screen():
            await anyio.to_thread.run_sync(webbrowser.open, url)
        if sys.stdin.isatty():
            note("Or paste the URL to which the browser is redirected.")
            _read_pasted(answers, asyncio.get_running_loop())
        with anyio.move_on_after(float(login["expires_in_s"])):
            while True:
                answer = await answers.get()
                if answer.get("state") == state:
                    body = {key: answer[key] for key in _ANSWER_FIELDS if key in answer}
                    return await gateway.request(
                        "POST", path_of("servers", name, "login", "finish"), body
                    )
                note("This is the response to another login.")
    raise TimedOutError(
        f"Nobody logged in to {name} within {float(login['expires_in_s']):g} seconds.",
        hint=f"Try again: toolgate servers login {name}",
    )


@asynccontextmanager
async def _callback_server() -> AsyncGenerator[tuple[int, "asyncio.Queue[dict[str, str]]"]]:
    """Listen on a local port; yields the port and a queue of received responses."""
    answers: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
        except (ValueError, OSError):
            line = b""
        method, _, rest = line.decode("latin-1").partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        is_answer = method == "GET" and target.path == _PATH
        if is_answer:
            answers.put_nowait(dict(parse_qsl(target.query, keep_blank_values=True)))
        text = (
            "You can close this window and return to the command line."
            if is_answer
            else "There is nothing at this address."
        )
        page = f"<!doctype html><title>Toolgate</title><p>{html.escape(text)}</p>".encode()
        status = "200 OK" if is_answer else "404 Not Found"
        writer.write(
            f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
            f"content-length: {len(page)}\r\nconnection: close\r\ncache-control: no-store\r\n"
            "content-security-policy: default-src 'none'\r\n\r\n".encode()
            + page
        )
        try:
            await writer.drain()
            writer.close()
        except OSError:
            pass

    for port in (*_PORTS, 0):
        try:
            server = await asyncio.start_server(answer, "127.0.0.1", port, limit=_MAX_LINE_BYTES)
        except OSError:
            continue
        async with server:
            yield int(server.sockets[0].getsockname()[1]), answers
        return
    raise PortTakenError("No port is free for the callback of a login.")


def _read_pasted(answers: "asyncio.Queue[dict[str, str]]", loop: asyncio.AbstractEventLoop) -> None:
    """Also accept URLs from standard input; the thread ends with the process."""

    def read() -> None:
        for line in sys.stdin:
            query = urlsplit(line.strip()).query
            if query:
                parameters = dict(parse_qsl(query, keep_blank_values=True))
                loop.call_soon_threadsafe(answers.put_nowait, parameters)

    Thread(target=read, daemon=True, name="toolgate-paste").start()


def _has_screen() -> bool:
    """Whether there is a graphical browser; a text browser would block the terminal."""
    if sys.platform in {"win32", "darwin"}:
        return True
    environment = current_environment()
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
