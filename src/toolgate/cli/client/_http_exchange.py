"""Requests to a running gateway over HTTP, as the user who started it."""

import asyncio
import contextlib
import http.client
import json
import os
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

from toolgate import __version__, settings
from toolgate.base.processes.run_file import RunFile
from toolgate.errors import UnreachableError
from toolgate.types import COMMAND_LINE, Json

CONNECT_TIMEOUT_S = 3.0
"""Seconds to connect to a gateway on the same machine (chosen: it may be busy, or gone)."""

_RESPONSE_TIMEOUT_S = 900.0
"""Seconds to wait for a response (chosen: longer than any tool call is allowed to take)."""

Exchange: TypeAlias = Callable[[str, str, Json | None], Awaitable[tuple[int, bytes]]]
"""Sends method, path and body of a request; returns status and body of the response."""

ResultT = TypeVar("ResultT")


def project_header() -> dict[str, str]:
    """The header for the project in TOOLGATE_PROJECT; empty without one."""
    _, project = settings.own_credentials()
    return {"X-Toolgate-Project": project} if project else {}


def working_folder() -> Path:
    """The current folder with symbolic links resolved; the root if it was deleted."""
    try:
        return Path(os.path.realpath(Path.cwd()))
    except OSError:
        return Path("/")


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    """Open a connection to a gateway of the same user on this machine."""
    if scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_S)
    # The certificate names the public host, not the loopback address used here. The run file, which
    # only this user can write, vouches for the gateway instead.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=CONNECT_TIMEOUT_S, context=context)


def over_http(run: RunFile, *, timeout_s: float = _RESPONSE_TIMEOUT_S) -> Exchange:
    """Create an exchange with a gateway in another process."""
    address = urlsplit(run.address)
    headers = {
        "X-Toolgate-Key": run.key,
        "X-Toolgate-Folder": quote(os.fsencode(working_folder())),
        "User-Agent": f"{COMMAND_LINE}/{__version__}",
        **project_header(),
    }

    async def exchange(method: str, path: str, body: Json | None) -> tuple[int, bytes]:
        connection = _connection(address.scheme, address.hostname or "127.0.0.1", address.port)

        def send() -> tuple[int, bytes]:
            connection.connect()
            connection.sock.settimeout(timeout_s)
            content = None if body is None else json.dumps(body).encode()
            content_type = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, content, headers | content_type)
            response = connection.getresponse()
            return response.status, response.read()

        try:
            return await _in_thread(send)
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(
                f"The gateway at {run.address} (process {run.pid}) does not answer:"
                f" {error or type(error).__name__}.",
                hint="Check its log, or stop it and run the command again.",
            ) from error
        finally:
            connection.close()

    return exchange


async def _in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Run blocking work in a thread that ends with the process, so that Ctrl-C never waits."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ResultT] = loop.create_future()

    def resolve(set_outcome: Callable[[Any], None], value: object) -> None:
        if not done.done():
            set_outcome(value)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            outcome: tuple[Callable[[Any], None], object] = (done.set_exception, error)
        else:
            outcome = (done.set_result, result)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(resolve, *outcome)

    threading.Thread(target=run, daemon=True, name="gateway request").start()
    return await done
