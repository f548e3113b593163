"""The Servers pages: state, stderr, adding, disabling and approving changes."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import orjson
from starlette.responses import Response

from toolgate.app.failure_causes import cause_of_status
from toolgate.app.server_check import Trial, try_servers
from toolgate.base.names import natural_order
from toolgate.console.activity import RANGES, activity_of, range_asked
from toolgate.console.known_servers import KNOWN_SERVERS, known_servers
from toolgate.console.pages._bulk_actions import for_each
from toolgate.console.pages.access.credentials import may_log_in
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.console.sorting import order_of
from toolgate.errors import (
    ArgumentError,
    SettingError,
    StoreError,
    ToolgateError,
    UnknownServerError,
)
from toolgate.search import signature
from toolgate.settings import (
    home_dir,
    parse_document,
    redact,
    server_name,
    server_spec,
    server_tables,
    translate,
)
from toolgate.settings.clients.choices import Choice, choose_servers, with_tilde
from toolgate.settings.clients.supported import Machine, find
from toolgate.types import EntryKind, Json, ServerSpec, ServerStatus, json_object

_STATES = ("ready", "degraded", "asleep", "connecting", "down", "disabled")
_ORDERS: Mapping[str, Callable[[ServerStatus], Any]] = {
    "name": lambda server: natural_order(server.name),
    "state": lambda server: _STATES.index(server.state),
    "tools": lambda server: server.tools,
    "transport": lambda server: server.kind,
    "latency": lambda server: server.latency_ms,
    "restarts": lambda server: server.restarts,
}
_PASTED = Path("pasted.json")
_MOST_TOOLS = 400
"""Tools on the page of a server (chosen: bounds the size of the page)."""

_UNFILTERED_TOOLS = 20
"""Tools of a server up to which there is no filter (chosen: they fit on a screen)."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A server that the user may want to add."""

    name: str
    """Its name in Toolgate."""

    config: Json
    """Keys of `[server.NAME]`."""

    clients: str = ""
    """The clients that have it."""

    files: tuple[str, ...] = ()
    """The files that have it."""

    notices: tuple[str, ...] = ()
    """What could not be converted."""

    trial: Json = field(default_factory=dict[str, Any])
    """Result of the trial; empty if it was not tried."""

    error: str = ""
    """Why it cannot be used; empty if no problem is known."""

    is_present: bool = False
    """Whether Toolgate has this server already."""

    is_selected: bool = True
    """Whether it is worth adding without a second thought."""

    @property
    def summary(self) -> str:
        """Its command or URL, without secrets."""
        config = redact(self.config)
        if config.get("url"):
            return str(config["url"])
        words = [str(config.get("command", "")), *map(str, config.get("args", ()))]
        return shlex.join(words)

    @property
    def as_text(self) -> str:
        """Serialise the candidate for the next step."""
        return orjson.dumps({"name": self.name, "config": self.config}).decode()


_PER_PAGE = 50
"""Servers per page (chosen: more are found with the filter, and each row has buttons)."""


async def _list(request: PageRequest) -> Response:
    state, transport = request.query_value("state"), request.query_value("transport")
    word = request.query_value("q").strip().lower()
    servers = request.server_statuses()
    matching = [
        server
        for server in servers
        if (not state or (server.held if state == "held" else server.state == state))
        and (not transport or server.kind == transport)
        and word in f"{server.name} {server.last_error or ''}".lower()
    ]
    matching.sort(key=lambda server: server.state != "down")  # or they would be on a later page
    order = order_of(request)
    counts = {state: sum(server.state == state for server in servers) for state in _STATES}
    counts["held"] = sum(server.held > 0 for server in servers)
    query = {"q": request.query_value("q"), "state": state, "transport": transport}
    pages = max(1, -(-len(matching) // _PER_PAGE))
    page = min(request.page_number(), pages)
    return request.page(
        "servers.html",
        servers=order.sort(matching, _ORDERS)[(page - 1) * _PER_PAGE : page * _PER_PAGE],
        causes={server.name: cause_of_status(server) for server in matching if server.last_error},
        matching=len(matching),
        page=page,
        pages=pages,
        total=len(servers),
        counts=counts,
        state=state,
        transport=transport,
        transports=sorted({server.kind for server in servers}),
        word=request.query_value("q"),
        order=order,
        query={name: value for name, value in query.items() if value},
        removed=request.gateway.manage.servers.removed(request.caller) if request.manages else {},
    )


async def _act_on_several(request: PageRequest) -> Response:
    """Apply an action to several servers, and report where it failed."""
    word, _, only = request.value("only").partition(" ")
    word = word or request.value("do")
    names = [only] if only else request.form_values("name")
    if not names:
        raise ArgumentError("No server selected.", hint="Select servers first.")
    outcome = await for_each(names, lambda name: _change(request, word, name))
    done = {"restart": "reconnecting", "remove": "removed"}.get(word, f"{word}d")
    who = names[0] if len(names) == 1 else f"{len(outcome.done)} servers"
    message = f"{who} {'is' if len(names) == 1 else 'are'} {done}.{outcome.failures}"
    query = {name: request.query_value(name) for name in ("q", "state", "transport")}
    return request.go("servers", message=message, **query)


async def _change(request: PageRequest, word: str, name: str) -> None:
    """Apply a button's action to a server.

    Raises:
        ArgumentError: The action does not exist.
    """
    servers = request.gateway.manage.servers
    match word:
        case "enable" | "disable":
            await servers.enable(request.caller, name, word == "enable")
        case "restart":
            await servers.restart(request.caller, name)
        case "remove":
            await servers.remove(request.caller, name)
        case "restore":
            await servers.restore(request.caller, name)
        case _:
            raise ArgumentError(f"Unknown action {word[:40]!r}.")


def _status(request: PageRequest, name: str) -> ServerStatus:
    server = request.gateway.servers.status(request.caller, name)
    if server is None:
        raise UnknownServerError(
            f"No server {name[:60]!r}.",
            hint="It may have been removed. See the list of servers.",
        )
    return server


async def _show(request: PageRequest) -> Response:
    server = _status(request, request.value("name"))
    span = range_asked(request)
    entries = [
        tool for tool in request.gateway.visible.tools(request.caller) if tool.server == server.name
    ]
    word = request.query_value("q").strip().casefold()
    matching = [
        tool
        for tool in entries
        if word in tool.own_name.casefold()
        or word in str(tool.definition.get("description") or "").casefold()
    ]
    switched: dict[str, bool] = {}
    quarantined = []
    if request.manages:
        switched = dict(
            request.gateway.manage.servers.spec(request.caller, server.name).tool_permissions
        )
        quarantined = await request.gateway.manage.quarantine.entries(request.caller, server.name)
    off = sorted(name for name, allowed in switched.items() if not allowed)
    return request.page(
        "server.html",
        server=server,
        cause=cause_of_status(server) if server.last_error else None,
        tools=matching[:_MOST_TOOLS],
        more=max(0, len(matching) - _MOST_TOOLS),
        word=request.query_value("q"),
        is_filtered=bool(word) or len(entries) > _UNFILTERED_TOOLS,
        off=off,
        unlisted=[
            name
            for name in off
            if word in name.casefold() and name not in {tool.own_name for tool in entries}
        ],
        held=quarantined,
        ranges=RANGES.values(),
        span=span,
        activity=await activity_of(request, span, server=server.name) if request.manages else None,
        signatures={
            tool.key: signature(tool.name, json_object(tool.definition.get("inputSchema")))
            for tool in matching[:_MOST_TOOLS]
        },
        is_stored=server.source == "store",
        may_log_in=any(
            spec.name == server.name and may_log_in(request, spec)
            for spec in request.app.logins.specs(request.caller)
        ),
    )


async def _log(request: PageRequest) -> Response:
    """Return the last lines of a server's stderr, for pages that show it live."""
    request.gateway.visible.must_manage(request.caller)
    return request.page("server_log.html", server=_status(request, request.query_value("name")))


async def _act(request: PageRequest) -> Response:
    manage, caller = request.gateway.manage, request.caller
    name, tools = request.value("name"), request.form_values("tool")
    match request.value("do"):
        case "enable" | "disable" | "restart" as word:
            await _change(request, word, name)
            message = f"{name} is {'reconnecting' if word == 'restart' else f'{word}d'}."
        case "remove":
            await _change(request, "remove", name)
            return request.go("servers", message=f"{name} was removed.")
        case "approve" | "reject" as word:
            kind = cast("EntryKind", request.value("kind"))
            entry = request.value("entry")
            await manage.quarantine.decide(caller, name, entry, kind=kind, accept=word == "approve")
            message = f"{entry} is {'approved' if word == 'approve' else 'rejected'}."
        case "switch":
            allowed = request.value("allowed") == "true"
            if not tools:
                raise ArgumentError("No tool selected.", hint="Select tools first.")
            await manage.servers.allow_tools(caller, name, tools, allowed=allowed)
            what = f"{tools[0]} is" if len(tools) == 1 else f"{len(tools)} tools are"
            message = f"{what} {'enabled' if allowed else 'disabled'} for everyone."
        case word:
            raise ArgumentError(f"Unknown action {word[:40]!r}.")
    kept = {key: request.query_value(key) for key in ("q", "range")}
    return request.go("server", message=message, name=name, **kept)


# Adding


async def _add_page(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    candidates = (
        await anyio.to_thread.run_sync(
            _servers_of_clients, request.app.logins.specs(request.caller)
        )
        if request.query_value("found")
        else []
    )
    existing = set(request.gateway.servers.names(request.caller))
    return request.page(
        "server_add.html",
        found=candidates,
        looked=bool(request.query_value("found")),
        known=existing,
        gallery=known_servers(request.query_value("q")),
        picked=next(
            (known for known in KNOWN_SERVERS if known.name == request.query_value("pick")), None
        ),
        projects=[project.name for project in await request.gateway.admin.projects(request.caller)],
        can_save=request.gateway.manage.settings.file is not None,
    )


async def _check(request: PageRequest) -> Response:
    """Show what is about to be added, after a trial if requested."""
    request.gateway.visible.must_manage(request.caller)
    candidates = _candidates(request)
    if not candidates:
        raise ArgumentError("No server given.", hint="Fill in one of the forms.")
    if request.value("do") == "test":
        candidates = await _tried(request, candidates)
    return request.page(
        "server_check.html",
        candidates=candidates,
        project=request.value("for"),
        save=request.value("save") == "true",
        tested=request.value("do") == "test",
    )


async def _save(request: PageRequest) -> Response:
    added: list[str] = []
    failed: list[Candidate] = []
    chosen = [_read_candidate(text) for text in request.form_values("take")]
    if not chosen:
        raise ArgumentError("No server selected.", hint="Select the servers to add.")
    for candidate in chosen:
        try:
            await request.gateway.manage.servers.add(
                request.caller,
                candidate.name,
                candidate.config,
                save=request.value("save") == "true",
                project=request.value("for"),
            )
            added.append(candidate.name)
        except ToolgateError as error:
            if isinstance(error, StoreError) and not added:
                raise  # nothing was added, so the whole form can be sent again
            failed.append(replace(candidate, error=str(error)))
    if failed:
        message = f"Added: {', '.join(added)}." if added else ""
        return request.page(
            "server_check.html",
            status=400,
            candidates=failed,
            project=request.value("for"),
            save=request.value("save") == "true",
            tested=False,
            done=message,
        )
    if len(added) == 1:
        return request.go("server", message=f"{added[0]} was added.", name=added[0])
    return request.go("servers", message=f"{len(added)} servers were added.")


def _candidates(request: PageRequest) -> list[Candidate]:
    match request.value("kind"):
        case "form":
            return [_from_form(request)]
        case "json":
            return _from_text(request.value("text"))
        case "found":
            return [_read_candidate(text) for text in request.form_values("take")]
        case word:
            raise ArgumentError(f"Servers cannot be added by {word[:40]!r}.")


def _from_form(request: PageRequest) -> Candidate:
    location, config = request.value("place").strip(), dict[str, Any]()
    if not location:
        raise ArgumentError(
            "Command or URL is missing.",
            allowed="A command such as `npx -y some-server`, or a URL such as"
            " https://example.org/mcp.",
        )
    pairs = _pairs(request.value("pairs"))
    if "://" in location.split()[0]:
        config = {"url": location} | ({"headers": pairs} if pairs else {})
    else:
        try:
            words = shlex.split(location)
        except ValueError as error:
            raise ArgumentError(f"The command cannot be read: {error}.") from error
        config = {"command": words[0], "args": words[1:]} | ({"env": pairs} if pairs else {})
    name = request.value("name").strip()
    if not name:
        raise ArgumentError("The server has no name.", allowed="Such as: github.")
    try:
        server_spec(name, config)
    except SettingError as error:
        message = error.failed.removeprefix("store: ")
        raise ArgumentError(
            f"{location!r} cannot be used: {message}", allowed=error.allowed
        ) from error
    return Candidate(name=name, config=config)


def _pairs(text: str) -> dict[str, str]:
    """Parse lines of `NAME=value` or `Name: value`."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        equals, colon = line.find("="), line.find(":")
        separator = min(at for at in (equals, colon, len(line)) if at >= 0)
        if separator == len(line):
            raise ArgumentError(
                f"Line {line[:40]!r} is not a NAME=value pair.", allowed="One NAME=value per line."
            )
        pairs[line[:separator].strip()] = line[separator + 1 :].strip()
    return pairs


def _from_text(text: str) -> list[Candidate]:
    """Return the servers in a pasted configuration of any client."""
    text = text.strip()
    if not text:
        raise ArgumentError("No JSON given.", allowed='Such as {"mcpServers": {…}}.')
    if text.startswith('"'):
        text = "{" + text + "}"
    document = parse_document(text, _PASTED)
    tables = [table for _, table in server_tables(document)]
    if not tables:  # the contents of mcpServers, or a single server
        root = document.root
        tables = [{"server": root} if "command" in root or "url" in root else root]
    candidates: list[Candidate] = []
    for table in tables:
        for name, entry in table.items():
            config = json_object(entry)
            if not config:
                raise ArgumentError(
                    f"{name[:40]!r} is not a server.", allowed="An object with command or url."
                )
            translated = translate(config, _PASTED)
            candidates.append(
                Candidate(
                    name=server_name(name), config=translated.config, notices=translated.notices
                )
            )
    return candidates


def clients_on_this_machine() -> dict[str, int]:
    """Return the number of configured servers of each client on this machine, by its title."""
    counts: dict[str, int] = {}
    for file in find(Machine.this()):
        if servers := [server for server in file.servers if not server.is_toolgate]:
            title = file.client.title
            counts[title] = counts.get(title, 0) + len(servers)
    return counts


def _servers_of_clients(present: Sequence[ServerSpec]) -> list[Candidate]:
    """Return the servers of the clients on this machine; equal ones once, with all their files.

    Args:
        present: The servers that Toolgate has.
    """
    machine = Machine.this()
    files = find(machine)
    choices = choose_servers(
        files, present, {}, cwd=machine.cwd, every_project=True, home=machine.home
    )
    by_name = {choice.name: _of_choice(choice) for choice in choices if choice.state == "new"}
    for choice in choices:
        if choice.state == "same" and choice.name in by_name:
            equal = by_name[choice.name]
            other = _of_choice(choice)
            by_name[choice.name] = replace(
                equal,
                clients=", ".join(dict.fromkeys((equal.clients, other.clients))),
                files=tuple(dict.fromkeys((*equal.files, *other.files))),
            )
        elif choice.state == "same":
            by_name[choice.name] = _of_choice(choice)
    problems = [
        f"{choice.server.name} in {choice.file.client.title},"
        f" {with_tilde(choice.file.path, home_dir())}: {'; '.join(choice.remarks)}."
        for choice in choices
        if choice.state in {"client_only", "broken"}
    ]
    problems += [file.error for file in files if file.error]
    return [
        *by_name.values(),
        *(Candidate(name="", config={}, error=problem) for problem in problems),
    ]


def _of_choice(choice: Choice) -> Candidate:
    config = choice.server.config
    if choice.name != choice.server.name:
        config = {**config, "title": choice.server.name}
    return Candidate(
        name=choice.name,
        config=config,
        clients=choice.file.client.title,
        files=(with_tilde(choice.file.path, home_dir()),),
        notices=choice.remarks if choice.state == "new" else (),
        is_present=choice.state == "same",
        is_selected=not (choice.is_disabled or choice.needs or choice.off),
    )


def _read_candidate(text: str) -> Candidate:
    try:
        fields = json_object(orjson.loads(text))
    except ValueError as error:
        raise ArgumentError("The selected server cannot be read.") from error
    return Candidate(name=str(fields.get("name", "")), config=json_object(fields.get("config")))


async def _tried(request: PageRequest, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Test servers, all at once."""
    checked = [_with_spec(candidate) for candidate in candidates]
    specs = {spec.name: spec for _, spec in checked if spec is not None}
    trials = await try_servers(request.app.settings, tuple(specs.values())) if specs else {}
    return [
        candidate if spec is None else replace(candidate, trial=_shown_trial(trials[spec.name]))
        for candidate, spec in checked
    ]


def _with_spec(candidate: Candidate) -> tuple[Candidate, ServerSpec | None]:
    """Return a candidate with its configuration; without, and with the error, if it is invalid."""
    try:
        return candidate, server_spec(candidate.name, candidate.config)
    except ToolgateError as error:
        return replace(candidate, error=str(error)), None


def _shown_trial(trial: Trial) -> Json:
    return asdict(trial) | ({} if trial.ok else {"error": cause_of_status(trial.status).found})


ROUTES = (
    Route(path="servers", show=_list, act=_act_on_several),
    Route(path="server", show=_show, act=_act),
    Route(path="server/log", show=_log),
    Route(path="servers/add", show=_add_page),
    Route(path="servers/check", show=_add_page, act=_check),
    Route(path="servers/save", show=_add_page, act=_save),
)
