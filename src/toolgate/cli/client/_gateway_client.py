"""The way of a command to a gateway: the one that runs on this machine, or one of its own.

Both are asked through the REST interface, over HTTP or within the process, so `--json` prints the
same shapes either way.
"""

import asyncio
import contextlib
import http.client
import json
import os
import ssl
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import anyio

from toolgate import __version__, settings
from toolgate.base import run_file
from toolgate.base.ids import utc_now
from toolgate.base.pack_files import packs_at
from toolgate.base.run_file import RunFile
from toolgate.cli.terminal._context import shared
from toolgate.errors import ToolgateError, UnknownServerError, UnreachableError
from toolgate.settings import Settings
from toolgate.types import Json, json_object

__all__ = [
    "AnsweredError",
    "Connect",
    "Door",
    "Exchange",
    "configuration_of",
    "find_running",
    "find_running_by_file",
    "found_any",
    "load_settings",
    "open_door",
    "over_http",
    "project_header",
    "store_url",
    "unknown_server",
    "working_folder",
]

WAIT_S = 30.0
"""Seconds that a gateway of our own waits for servers which were never listed."""

_FOR_PEOPLE = {"Find tools with tool_discovery.": "Find tools with: toolgate search"}
"""Hints for models, as people do the same."""

_ITS_LOG = "the log of the gateway says"
_VERBOSE = "the same command with --verbose says"
"""Where a gateway that ends with its command has its log."""

_CONNECT_S = 3.0
_LOOK_S = 0.05
_ANSWER_S = 900.0

Exchange = Callable[[str, str, Json | None], Awaitable[tuple[int, bytes]]]
"""Method, path and body of a request; gives status and body of the answer."""

Connect: TypeAlias = Literal["all", "unknown"] | Collection[str]
"""Servers that a command needs."""

ResultT = TypeVar("ResultT")


class AnsweredError(ToolgateError):
    """A gateway answered with an error; `kind` is its code."""

    def __init__(self, failed: str, *, kind: str, hint: str = "") -> None:
        super().__init__(failed, hint=hint)
        self.kind = kind


def load_settings() -> Settings:
    """The settings that the shared options name.

    Raises:
        SettingError: They cannot be read.
    """
    options = shared()
    overrides: Json = {"packs": {"dev": True}} if options.dev else {}
    if options.auth:
        overrides["auth"] = options.auth
    return settings.load(options.config, options.imports, overrides=overrides)


def store_url(loaded: Settings) -> str:
    """The store of these settings, the default one where they name none."""
    return loaded.store.url or settings.default_store_url()


def unknown_server(name: str, known: Iterable[str]) -> UnknownServerError:
    """What to say about a server that is not there."""
    return UnknownServerError(
        f"There is no server {name!r}.",
        allowed=f"Servers: {', '.join(sorted(known)) or 'none'}.",
        hint="See: toolgate servers list",
    )


def configuration_of(loaded: Settings) -> tuple[str, ...]:
    """What a gateway with these settings announces as its configuration."""
    return _configuration(loaded.config_file, loaded.imports)


def _configuration(config: Path | None, imports: Iterable[str | Path]) -> tuple[str, ...]:
    """The same for every process that reads these files, by whichever path."""
    whole = [os.path.realpath(settings.expand_home(str(path))) for path in imports]
    return (os.path.realpath(config) if config else "", *whole)


def working_folder() -> Path:
    """Where this command runs, the same by whichever path; the root where it was removed."""
    try:
        return Path(os.path.realpath(Path.cwd()))
    except OSError:
        return Path("/")


async def find_running(loaded: Settings) -> "Door | None":
    """The gateway of the same store and configuration on this machine, if one answers.

    Packs in the working folder belong to the configuration: a gateway that runs somewhere else
    does not have them.
    """
    here = working_folder()
    return await _answering(
        run_file.find(
            settings.run_dir(),
            store_url(loaded),
            configuration_of(loaded),
            runs_in=str(here) if packs_at(here) else None,
        )
    )


async def find_running_by_file() -> "Door | None":
    """The gateway that was started with this configuration file, whatever the file says now."""
    wanted = _configuration(settings.find_config(shared().config), ())
    for run in run_file.find_all(settings.run_dir(), None):
        if run.configuration[:1] == wanted and (door := await _answering(run)) is not None:
            return door
    return None


async def _answering(run: RunFile | None) -> "Door | None":
    if run is None:
        return None
    try:
        status, _ = await over_http(run, answer_s=_CONNECT_S)("GET", "/healthz", None)
    except UnreachableError:
        return None  # another program may have its process id since, and nobody its address
    return Door(over_http(run), run) if status == http.client.OK else None


@asynccontextmanager
async def open_door(
    loaded: Settings, *, connect: Connect = "unknown", own: bool = False
) -> AsyncGenerator["Door"]:
    """A gateway to ask: the running one, else one of our own that ends with the block.

    Args:
        loaded: Settings of the command.
        connect: Which servers a gateway of our own connects: `all`, those that were never listed
            (`unknown`), or those of these names; what was last known of the others is there too.
        own: Whether it has to be one of our own: these settings are not those that it runs with.
    """
    remote = None if own else await find_running(loaded)
    if remote is not None:
        yield remote
        return
    began = utc_now()
    local: Any = import_module("toolgate.cli.client._local_gateway")
    async with local.open_local(loaded, connect=connect, wait_s=WAIT_S) as exchange:
        yield Door(exchange, None, began=began)


class Door:
    """What commands ask of a gateway."""

    def __init__(self, exchange: Exchange, run: RunFile | None, *, began: str = "") -> None:
        self._exchange = exchange
        self._began = began
        self.running = run
        """The gateway that answers; None when it was started for this command."""

    async def servers(self) -> list[Json]:
        """Every server with its state."""
        return cast("list[Json]", (await self._ask("GET", "servers"))["servers"])

    async def servers_when_settled(self, only: str | None = None) -> list[Json]:
        """Every server, once each (or that one) has answered and was listed, or has failed.

        Waits 30 s at most, and not at all for all servers of a running gateway.
        """
        found = await self.servers()
        if self.running is None or only is not None:
            with anyio.move_on_after(WAIT_S):
                while not all(
                    _is_settled(server, self._began)
                    for server in found
                    if only in {None, server["name"]}
                ):
                    await anyio.sleep(_LOOK_S)
                    found = await self.servers()
        return found

    async def tools(self, server: str | None) -> list[Json]:
        """Every tool, or those of one server."""
        query = f"?{urlencode({'server': server})}" if server else ""
        return cast("list[Json]", (await self._ask("GET", f"tools{query}"))["tools"])

    async def discover(self, wanted: Json) -> Json:
        """Tools that fit a request: `query`, `limit`, `servers`, `threshold` and so on.

        Where nothing fits while servers of a gateway start for the first time, they are waited for,
        30 s at most.
        """
        answer = await self._discover(wanted)
        if self.running is None or found_any(answer) or not await self._is_starting():
            return answer
        with anyio.move_on_after(WAIT_S):
            is_starting = True
            while is_starting:
                await anyio.sleep(_LOOK_S)
                is_starting = await self._is_starting()
        return await self._discover(wanted)

    async def _discover(self, wanted: Json) -> Json:
        answer = await self._ask("POST", "discover", wanted)
        if self.running is None:
            told = {name: answer[name] for name in ("notice", "text") if name in answer}
            answer |= {name: str(text).replace(_ITS_LOG, _VERBOSE) for name, text in told.items()}
        return answer

    async def _is_starting(self) -> bool:
        return any(
            server["state"] == "connecting" and server["listed_at"] is None
            for server in await self.servers()
        )

    async def describe(self, keys: Sequence[str], *, indexed: bool = False) -> Json:
        """Full definitions by tool key, with the texts that are embedded if wanted."""
        wanted: Json = {"toolKeys": list(keys)}
        if indexed:
            wanted["indexed"] = True
        return await self._ask("POST", "describe", wanted)

    async def execute(self, key: str, arguments: Json) -> Json:
        """Run a tool; its result as it came."""
        return await self._ask("POST", "execute", {"toolKey": key, "arguments": arguments})

    async def enrich(self, wanted: Json) -> Json:
        """The rules for a `prompt`, or for `queries`."""
        return await self._ask("POST", "enrich", wanted)

    async def mark(self, key: str, mark: str) -> Json:
        """Say `right` or `wrong` of a tool that a search showed."""
        return await self._ask("POST", "mark", {"toolKey": key, "mark": mark})

    async def usage(self) -> Json:
        """What was learned from use."""
        return await self._ask("GET", "usage")

    async def cost(self, days: float) -> Json:
        """What conversations cost."""
        return await self._ask("GET", f"cost?days={days:g}")

    async def tool_usage(self, days: float) -> Json:
        """How tools were used."""
        return await self._ask("GET", f"tools/usage?days={days:g}")

    async def packs(self) -> list[Json]:
        """Every pack that was found, with what is wrong with it."""
        return cast("list[Json]", (await self._ask("GET", "packs"))["packs"])

    async def forget_usage(self) -> Json:
        """Forget what was searched and used."""
        return await self._ask("DELETE", "usage")

    async def groups(self) -> list[Json]:
        """The capability groups."""
        return cast("list[Json]", (await self._ask("GET", "groups"))["groups"])

    async def add_server(self, name: str, config: Json, *, save: bool, project: str = "") -> None:
        """Add a server to the store, or with `save` to the configuration file."""
        wanted: Json = {"name": name, "config": config, "save": save}
        if project:
            wanted["project"] = project
        await self._ask("POST", "servers", wanted)

    async def tokens(self) -> list[Json]:
        """All tokens."""
        return cast("list[Json]", (await self._ask("GET", "tokens"))["tokens"])

    async def create_token(self, wanted: Json) -> Json:
        """Make a token; the answer has it, as `token`."""
        return await self._ask("POST", "tokens", wanted)

    async def rotate_token(self, name: str, wanted: Json) -> Json:
        """Renew a token; the answer has it, as `token`."""
        return await self._ask("POST", f"tokens/{quote(name, safe='')}/rotate", wanted)

    async def revoke_token(self, name: str) -> Json:
        """Have a token refused from now on."""
        return await self._ask("POST", f"tokens/{quote(name, safe='')}/revoke", {})

    async def delete_token(self, name: str) -> Json:
        """Remove a token."""
        return await self._ask("DELETE", f"tokens/{quote(name, safe='')}")

    async def projects(self) -> list[Json]:
        """All projects."""
        return cast("list[Json]", (await self._ask("GET", "projects"))["projects"])

    async def create_project(self, wanted: Json) -> Json:
        """Make a project."""
        return await self._ask("POST", "projects", wanted)

    async def set_project(self, name: str, wanted: Json) -> Json:
        """Change what a project sets."""
        return await self._ask("POST", f"projects/{quote(name, safe='')}", wanted)

    async def delete_project(self, name: str) -> None:
        """Remove a project."""
        await self._ask("DELETE", f"projects/{quote(name, safe='')}")

    async def permissions(self) -> list[Json]:
        """All permission rules."""
        return cast("list[Json]", (await self._ask("GET", "permissions"))["permissions"])

    async def add_permissions(self, wanted: Json) -> list[Json]:
        """Make permission rules."""
        answer = await self._ask("POST", "permissions", wanted)
        return cast("list[Json]", answer["permissions"])

    async def remove_permission(self, permission_id: str) -> None:
        """Remove a permission rule."""
        await self._ask("DELETE", f"permissions/{quote(permission_id, safe='')}")

    async def guards(self) -> list[Json]:
        """All guards around calls."""
        return cast("list[Json]", (await self._ask("GET", "guards"))["guards"])

    async def add_guard(self, wanted: Json) -> Json:
        """Make a guard."""
        return await self._ask("POST", "guards", wanted)

    async def remove_guard(self, guard_id: str) -> None:
        """Remove a guard that was made by command."""
        await self._ask("DELETE", f"guards/{quote(guard_id, safe='')}")

    async def explain(self, wanted: Json) -> Json:
        """Why somebody sees a tool, or not."""
        return await self._ask("POST", "explain", wanted)

    async def remove_server(self, name: str) -> None:
        """Remove a server from the store."""
        await self._ask("DELETE", f"servers/{quote(name)}")

    async def enable_server(self, name: str, *, enabled: bool) -> None:
        """Switch a server on or off."""
        await self._ask("POST", f"servers/{quote(name)}/{'enable' if enabled else 'disable'}", {})

    async def index(self) -> Json:
        """How the vectors of the tools stand."""
        return await self._ask("GET", "index")

    async def refresh_index(self, server: str | None) -> Json:
        """Have the vectors of a server computed anew, or all."""
        return await self._ask("POST", "index/refresh", {"server": server} if server else {})

    async def remove_index(self, server: str) -> Json:
        """Remove what is kept of a server's vectors."""
        return await self._ask("DELETE", f"index/{quote(server)}")

    async def held_tools(self) -> list[Json]:
        """The tools that wait until somebody approves them."""
        return cast("list[Json]", (await self._ask("GET", "held"))["held"])

    async def decide_held(self, server: str, tool: str, *, accept: bool) -> Json:
        """Let a tool that is held back through, or say no to it."""
        wanted: Json = {"tool": tool, "approve": accept}
        return await self._ask("POST", f"servers/{quote(server)}/approve", wanted)

    async def approvals(self, *, state: str, limit: int) -> list[Json]:
        """Calls that wait or waited for a person, newest first."""
        query = urlencode({"state": state, "limit": limit})
        return cast("list[Json]", (await self._ask("GET", f"approvals?{query}"))["approvals"])

    async def whole_approval_id(self, beginning: str) -> str:
        """The id that begins so, if only one does; else what was given."""
        waiting = await self.approvals(state="all", limit=1_000)
        found = {str(one["id"]) for one in waiting if str(one["id"]).startswith(beginning)}
        return found.pop() if len(found) == 1 else beginning

    async def approval(self, approval_id: str) -> Json:
        """A call that waits or waited."""
        return await self._ask("GET", f"approvals/{quote(approval_id, safe='')}")

    async def decide_approval(self, approval_id: str, wanted: Json, *, approve: bool) -> Json:
        """Say yes or no to a call that waits."""
        verb = "approve" if approve else "reject"
        return await self._ask("POST", f"approvals/{quote(approval_id, safe='')}/{verb}", wanted)

    async def credentials(self, server: str = "") -> list[Json]:
        """What is shown to servers, without the secrets."""
        query = f"?{urlencode({'server': server})}" if server else ""
        return cast("list[Json]", (await self._ask("GET", f"credentials{query}"))["credentials"])

    async def begin_login(self, name: str, wanted: Json) -> Json:
        """Begin a login at a server."""
        return await self._ask("POST", f"servers/{quote(name)}/login", wanted)

    async def finish_login(self, name: str, answer: Json) -> Json:
        """End a login with what came back."""
        known = ("state", "code", "iss", "error")
        wanted = {key: answer[key] for key in known if key in answer}
        return await self._ask("POST", f"servers/{quote(name)}/login/finish", wanted)

    async def give_credentials(self, name: str, wanted: Json) -> Json:
        """Keep headers or variables for a server."""
        return await self._ask("POST", f"servers/{quote(name)}/credentials", wanted)

    async def remove_credentials(self, name: str, *, user: str = "", project: str = "") -> bool:
        """Forget what is shown to a server; whether there was anything."""
        given = {key: value for key, value in (("user", user), ("project", project)) if value}
        query = f"?{urlencode(given)}" if given else ""
        answer = await self._ask("DELETE", f"servers/{quote(name)}/credentials{query}")
        return bool(answer["removed"])

    async def restart_server(self, name: str) -> None:
        """End the connection to a server and make a new one."""
        await self._ask("POST", f"servers/{quote(name)}/restart", {})

    async def rest(self, method: str, path: str, body: Json | None = None) -> Json:
        """What a place below `/api/v1/` answers."""
        return await self._ask(method, path, body)

    async def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        status, raw = await self._exchange(method, f"/api/v1/{path}", body)
        try:
            answer: object = json.loads(raw) if raw else {}
        except ValueError:
            answer = None
        if status < http.client.BAD_REQUEST and isinstance(answer, dict):
            return cast("Json", answer)
        error = json_object(json_object(answer).get("error"))
        message = str(error.get("message") or f"The gateway answered with status {status}.")
        if self.running is None:
            message = message.replace(_ITS_LOG, _VERBOSE)
        hint = str(error.get("hint") or "")
        raise AnsweredError(
            message, kind=str(error.get("code") or ""), hint=_FOR_PEOPLE.get(hint, hint)
        )


def found_any(answer: Json) -> bool:
    """Whether a search found something that fits, pinned tools apart."""
    found = cast("list[Json]", answer.get("results") or [])
    return any(hit.get("source") != "core" and not hit.get("weak") for hit in found)


def _is_settled(server: Json, since: str) -> bool:
    """Whether it is down or off, or was listed (after a moment in UTC, ISO 8601, if given)."""
    if server["state"] in {"down", "disabled"}:
        return True
    listed_at = server["listed_at"]
    if listed_at is None or server["state"] == "connecting":
        return False
    return not since or datetime.fromisoformat(listed_at) >= datetime.fromisoformat(since)


def project_header() -> dict[str, str]:
    """The project that commands act in: that of the variable TOOLGATE_PROJECT."""
    _, project = settings.own_credentials()
    return {"X-Toolgate-Project": project} if project else {}


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    """A connection to a gateway of the same user on this machine, which its run file names."""
    if scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=_CONNECT_S)
    # Its certificate is for the name by which others know it; who it is, the run file says.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=context)


def over_http(run: RunFile, *, answer_s: float = _ANSWER_S) -> Exchange:
    """Requests to a gateway in another process."""
    place = urlsplit(run.address)
    headers = {
        "X-Toolgate-Key": run.key,
        "X-Toolgate-Folder": quote(os.fsencode(working_folder())),
        "User-Agent": f"toolgate-cli/{__version__}",
        **project_header(),
    }

    async def exchange(method: str, path: str, body: Json | None) -> tuple[int, bytes]:
        connection = _connection(place.scheme, place.hostname or "127.0.0.1", place.port)

        def work() -> tuple[int, bytes]:
            connection.connect()
            connection.sock.settimeout(answer_s)
            text = None if body is None else json.dumps(body).encode()
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, text, headers | kind)
            answer = connection.getresponse()
            return answer.status, answer.read()

        try:
            return await _in_thread(work)
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(
                f"The gateway at {run.address} (process {run.pid}) does not answer:"
                f" {error or type(error).__name__}.",
                hint="Look at its log, or stop it and run the command again.",
            ) from error
        finally:
            connection.close()

    return exchange


async def _in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Run blocking work in a thread that dies with the process, so that Ctrl-C never waits."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ResultT] = loop.create_future()

    def settle(give: Callable[[Any], None], value: object) -> None:
        if not done.done():
            give(value)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the work is awaited
            outcome: tuple[Callable[[Any], None], object] = (done.set_exception, error)
        else:
            outcome = (done.set_result, result)
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True, name="gateway request").start()
    return await done
