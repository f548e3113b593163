"""No door shows or runs what the decision denies: random servers, rules and callers."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chat.chat_gateway import Scripted, scripted
from tests.limits import HANG_S
from tests.security.access.fake_catalog import caller
from toolgate.app.app import App, open_app
from toolgate.chat import TurnRequest
from toolgate.errors import CatalogError, ToolgateError, UnknownToolError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.models.llm import Message
from toolgate.security.access import AccessRule, PolicyInputs, ProjectRules, parse_pattern
from toolgate.server.asgi.authentication import CALLER
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.rest.api import RestApi
from toolgate.settings import (
    ChatSettings,
    DiscoverySettings,
    ModelTable,
    Settings,
    StoreSettings,
)
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import DEFAULT_PROJECT, Caller, Json, ServerSpec

SERVERS = ("alfa", "bravo", "carla", "delta")
GONE = "delta:deltatool2x"
"""Taken away by `tool_permissions`."""


def upstream(name: str) -> FakeUpstream:
    tools = [f"{name}tool{number}x" for number in range(3)]
    hints: list[Json] = [{"readOnlyHint": True}, {"destructiveHint": False}, {}]
    return FakeUpstream(
        {tool: lambda _params: text_result("done") for tool in tools},
        definitions={
            tool: {
                "description": "Finds papers about whales.",
                "annotations": hint,
                "inputSchema": {
                    "type": "object",
                    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
                },
            }
            for tool, hint in zip(tools, hints, strict=True)
        },
        prompts=({"name": f"{name}promptx"},),
        resources=({"uri": f"mem://{name}resourcex", "name": "r"},),
        templates=({"uriTemplate": f"mem://{name}templatex/{{n}}", "name": "t"},),
    )


@dataclass
class World:
    """A gateway that is open for all examples."""

    app: App
    rest: RestApi
    upstreams: dict[str, FakeUpstream]
    model: Scripted
    """What turns of chat ask; it calls every tool there is, whatever it was offered."""

    @property
    def keys(self) -> list[str]:
        return [f"{name}:{name}tool{number}x" for name in SERVERS for number in range(3)]


@asynccontextmanager
async def opened() -> AsyncGenerator[World]:
    upstreams = {name: upstream(name) for name in SERVERS}
    specs = tuple(
        ServerSpec(
            name=name,
            kind="inprocess",
            options={"target": one},
            tool_permissions={"deltatool2x": False} if name == "delta" else {},
        )
        for name, one in upstreams.items()
    )
    wanted = Settings(
        servers=specs,
        store=StoreSettings(url="sqlite://"),
        optimization="bm25",
        groups={"whalesgroup": ("alfa",), "fishgroup": ("bravo", "carla")},
        discovery=DiscoverySettings(max_results=20, budget_tokens=4000, show_down=True),
    )
    async with scripted() as model:
        table = ModelTable(model="double", url=model.url, key="k", retries=0)
        wanted = replace(wanted, models={"main": table}, chat=ChatSettings(engine="plain"))
        async with open_app(wanted, wait_s=HANG_S, wires=dict(upstreams)) as app:
            yield World(app=app, rest=RestApi(app), upstreams=upstreams, model=model)


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal("asyncio") as found:
        yield found


@pytest.fixture(scope="module")
def world(portal: BlockingPortal) -> Iterator[World]:
    held: AbstractContextManager[World] = portal.wrap_async_context_manager(opened())
    with held as found:
        yield found


_patterns = st.one_of(
    st.just("*"),
    st.sampled_from(SERVERS),
    st.sampled_from(["*a", "?lfa", "b*:*", "*:*tool1x", "alfa:*", "carla:carlatool0x", "*:*"]),
    st.sampled_from(
        ["resource=alfa:*", "resource=*:mem://*resourcex", "prompt=*", "prompt=bravo:*"]
    ),
    st.sampled_from(["right=internal", "server=d*"]),
)


@st.composite
def _rules(draw: st.DrawFn) -> AccessRule:
    kind, pattern = parse_pattern(draw(_patterns))
    return AccessRule(
        effect=draw(st.sampled_from(["allow", "allow", "deny"])),
        who=draw(st.sampled_from(["everyone", "token:t", "role:r", "group:g", "project:p"])),
        kind=kind,
        pattern=pattern,
        hint=draw(st.sampled_from(["", "", "", "read_only", "destructive"])),
    )


_callers = st.builds(
    caller,
    token=st.sampled_from(["", "t"]),
    roles=st.sampled_from([(), ("r",), ("reader",), ("member",)]),
    groups=st.sampled_from([(), ("g",)]),
    project=st.sampled_from([DEFAULT_PROJECT, "p", "q"]),
    read_only=st.booleans(),
    kind=st.sampled_from(["token", "token", "token", "local"]),
)
_claims = st.dictionaries(
    st.sampled_from(["p", "q"]),
    st.builds(
        ProjectRules,
        servers=st.lists(st.sampled_from(SERVERS), max_size=3, unique=True).map(tuple),
        shared_servers=st.booleans(),
        read_only=st.booleans(),
    ),
)


@settings(max_examples=10, deadline=None)
@given(
    rules=st.lists(_rules(), max_size=7),
    claims=_claims,
    asker=_callers,
    mode=st.sampled_from(["all", "meta", "auto"]),
    down=st.sampled_from([(), ("bravo",)]),
)
def test_no_door_shows_or_runs_what_the_decision_denies(
    portal: BlockingPortal,
    world: World,
    rules: list[AccessRule],
    claims: dict[str, ProjectRules],
    asker: Caller,
    mode: str,
    down: tuple[str, ...],
) -> None:
    portal.call(
        _check,
        world,
        PolicyInputs(required=True, rules=tuple(rules), projects=claims),
        asker,
        mode,
        down,
    )


async def _check(
    world: World, grounds: PolicyInputs, asker: Caller, mode: Any, down: tuple[str, ...]
) -> None:
    gateway, policy = world.app.gateway, world.app.permissions.policy
    policy.reload(grounds)
    world.app.current_settings.replace(replace(gateway.settings, mode=mode))
    gateway.changes.settings_changed()
    gateway._catalog._down = frozenset(down)
    asker = replace(asker, conversation=f"{asker.caller_id}-{id(grounds)}")
    may = {key: policy.decide(asker, "call", key).allowed for key in world.keys}
    assert not may[GONE]

    shown = await _everything(world, asker)

    for key, is_allowed in may.items():
        name = key.partition(":")[2]
        if not is_allowed:
            assert name not in shown, f"{key} is shown"
        elif mode == "all":
            assert name in shown
    for name in SERVERS:
        reads = policy.decide(asker, "read", f"{name}:mem://{name}resourcex").allowed
        prompts = policy.decide(asker, "prompt", f"{name}:{name}promptx").allowed
        templates = policy.decide(asker, "read", f"{name}:mem://{name}templatex/{{n}}").allowed
        assert (f"{name}resourcex" in shown) is reads
        assert (f"{name}promptx" in shown) is prompts
        assert (f"{name}templatex" in shown) is templates
        own = any(may[key] for key in world.keys if key.startswith(f"{name}:"))
        manages = policy.decide(asker, "right", "manage").allowed
        if not (own or reads or prompts or templates or manages):
            assert not re.search(rf"\b{name}\b", shown), f"{name} is named"
    visible = sum(policy.decide(asker, "list", key).allowed for key in world.keys)
    await _check_counts(world, asker, visible)
    await _try_turn(world, asker, may)
    for key, is_allowed in may.items():
        await _try_tool(world, asker, key, is_allowed=is_allowed)
    for name in SERVERS:
        await _try_rest(world, asker, name)


async def _everything(world: World, asker: Caller) -> str:
    """All that is said to a caller who names nothing."""
    gateway = world.app.gateway
    found: list[Any] = [
        await gateway.listing.list_tools(asker),
        await gateway.listing.list_prompts(asker),
        await gateway.listing.list_resources(asker),
        await gateway.listing.list_templates(asker),
        gateway.listing.instructions(asker),
        [(view.key, view.definition) for view in gateway.listing.tool_views(asker)],
        [(status.name, status.tools) for status in gateway.servers.statuses(asker)],
        await gateway.discovery.groups(asker),
        await gateway.manage.vectors.status(asker),
    ]
    for request in (
        DiscoverRequest(queries=("papers about whales",), max_results=20),
        DiscoverRequest(queries=("whales", "papers"), max_results=1),
        DiscoverRequest(queries=("nothing of the kind at all",)),
    ):
        discovery = await gateway.discovery.discover(asker, request)
        found += [discovery.text, discovery.structured(explain=True)]
    for params in (
        {"name": "tool_discovery", "arguments": {"query": ["whales"]}},
        {"name": "getKnowledge", "arguments": {"queries": ["find whales"]}},
        {"name": "processPrompt", "arguments": {"prompt": "find whales"}},
        {"name": "tool_describe", "arguments": {"toolKeys": ["nothing:here"]}},
        {"name": "tool_execute", "arguments": {"toolKey": "tool", "arguments": {}}},
        {"name": "tool_discovery", "arguments": {"query": ["w"], "server": "nowhere"}},
        {"name": "tool_discovery", "arguments": {"query": ["w"], "group": "nowhere"}},
        {"name": "nothing", "arguments": {}},
    ):
        found.append(await _said(lambda params=params: gateway.call(asker, params, None)))
    found += [await _asked(world, asker, *place) for place in _REST]
    return "\n".join(one.decode() if isinstance(one, bytes) else _text(one) for one in found)


_REST: tuple[tuple[str, str, Json], ...] = (
    *(("GET", path, {}) for path in ("me", "tools", "status", "servers", "groups")),
    *(("GET", path, {}) for path in ("approvals", "tools/versions", "openapi.json", "threads")),
    ("POST", "discover", {"query": "papers about whales", "limit": 20}),
    ("POST", "discover", {"query": "whales", "server": "nowhere"}),
    ("POST", "describe", {"toolKeys": ["nothing:here"]}),
    ("POST", "execute", {"toolKey": "alfatool"}),
    ("POST", "detect", {"message": "find papers about whales"}),
    ("POST", "enrich", {"prompt": "find papers about whales"}),
)
"""What anybody may ask over REST."""
_MANAGING: tuple[str, ...] = (
    *("audit", "cost", "tools/usage", "usage", "held", "index", "optimization", "packs"),
    *("tokens", "projects", "permissions", "guards", "collections", "prompts", "credentials"),
)
"""What is for who manages; to others it says nothing."""


async def _asked(world: World, asker: Caller, method: str, path: str, body: Json) -> Any:
    """What the REST door answers a caller."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": orjson.dumps(body) if body else b""}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": f"/api/v1/{path}", "headers": headers}
    scope[HEADERS] = dict(headers)
    CALLER.set(asker)
    try:
        await world.rest.route({**scope, "query_string": b""}, receive, send)
    except ToolgateError as error:
        return str(error)
    return orjson.loads(sent[1]["body"])


async def _check_counts(world: World, asker: Caller, visible: int) -> None:
    """Numbers tell as little as names; what is for who manages names nothing to others."""
    status = await _asked(world, asker, "GET", "status", {})
    servers = (await _asked(world, asker, "GET", "servers", {}))["servers"]
    assert status["servers"] == len(servers)
    if not world.app.permissions.policy.decide(asker, "right", "manage").allowed:
        assert status["tools"] == visible
        assert sum(server["tools"] for server in servers) == visible
        for path in _MANAGING:
            told = _text(await _asked(world, asker, "GET", path, {}))
            assert not re.search(r"(alfa|bravo|carla|delta)tool\dx", told), path


async def _try_turn(world: World, asker: Caller, may: dict[str, bool]) -> None:
    """A turn of chat: its model hears of no tool that is denied, and runs none, as it may try."""
    assert world.app.chat is not None
    calls = [{"name": key.replace(":", "__"), "arguments": {}} for key in world.keys]
    world.model.script({"tool_calls": calls}, {"content": "Done."})
    before = {name: len(one.requests) for name, one in world.upstreams.items()}
    asked = Message(role="user", content="Find papers about whales.")
    sent = len(world.model.chats)
    run = world.app.chat.start(TurnRequest(caller=asker, messages=(asked,)))
    assert run.task is not None
    await run.task
    first, *_ = world.model.chats[sent:]
    for key, is_allowed in may.items():
        if not is_allowed:
            assert key.partition(":")[2] not in _text(first), f"{key} is offered"
    for name, upstream in world.upstreams.items():
        allowed = sum(may[key] for key in world.keys if key.startswith(f"{name}:"))
        assert len(upstream.requests) - before[name] <= allowed


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


async def _said(work: Callable[[], Awaitable[Any]]) -> str:
    try:
        return _text(await work())
    except ToolgateError as error:
        return str(error)


async def _try_tool(world: World, asker: Caller, key: str, *, is_allowed: bool) -> None:
    """Every way of using a tool by name; what is refused looks like what there is not."""
    gateway, (server, _, name) = world.app.gateway, key.partition(":")
    calls = len(world.upstreams[server].requests)
    exposed, missing = f"{server}__{name}", ("zulu:zulutool9x", "zulu__zulutool9x")
    if is_allowed:
        await gateway.discovery.describe(asker, [key])
        result = await gateway.calls.execute(asker, key, {})
        assert result["content"][0]["text"] == "done"
        assert gateway.listing.input_schema(asker, exposed) is not None
        return
    for named, other in ((key, missing[0]), (exposed, missing[1])):
        for verb in ("describe", "execute", "call", "describe by meta", "execute by meta"):
            told = await _outcome(gateway, asker, verb, named)
            assert told[0] == (await _outcome(gateway, asker, verb, other))[0], (verb, named)
            # Only what was asked for is named again.
            others = [each.partition(":")[2] for each in world.keys if each != key]
            denied = [
                one
                for one in others
                if one in told[1]
                and not world.app.permissions.policy.decide(
                    asker, "list", f"{one[:5].removesuffix('t')}:{one}"
                ).allowed
            ]
            assert denied == []
    assert gateway.listing.input_schema(asker, exposed) is None
    assert gateway.visible.authorize_name(asker, exposed) is None
    assert len(world.upstreams[server].requests) == calls


async def _outcome(gateway: Any, asker: Caller, verb: str, name: str) -> tuple[str, str]:
    """What kind of answer came, and its text."""
    try:
        match verb:
            case "describe":
                await gateway.discovery.describe(asker, [name])
            case "execute":
                await gateway.calls.execute(asker, name, {})
            case "call":
                await gateway.call(asker, {"name": name, "arguments": {}}, None)
            case "describe by meta":
                params = {"name": "tool_describe", "arguments": {"toolKeys": [name]}}
                told = await gateway.call(asker, params, None)
                return f"{told.get('isError')} {told.get('_meta')}", _text(told)
            case _:
                params = {"name": "tool_execute", "arguments": {"toolKey": name, "arguments": {}}}
                told = await gateway.call(asker, params, None)
                return f"{told.get('isError')} {told.get('_meta')}", _text(told)
    except UnknownToolError as error:
        return "unknown_tool", str(error)
    return "ran", ""


async def _try_rest(world: World, asker: Caller, name: str) -> None:
    """Resources, prompts, completion and subscriptions of a server."""
    gateway, policy = world.app.gateway, world.app.permissions.policy
    seen = len(world.upstreams[name].requests)
    attempts: list[tuple[bool, Callable[[], Awaitable[Any]]]] = []
    for uri in (f"mem://{name}resourcex", f"mem://{name}templatex/1"):
        may = policy.decide(asker, "read", f"{name}:{uri}").allowed
        for form in (uri, f"toolgate://{name}/{uri}"):
            attempts.append(
                (may, lambda form=form: gateway.resources.read(asker, {"uri": form}, None))
            )
            attempts.append((may, lambda form=form: _subscribed(gateway, asker, form)))
    may = policy.decide(asker, "prompt", f"{name}:{name}promptx").allowed
    prompt = f"{name}__{name}promptx"
    attempts.append((may, lambda: gateway.prompts.get(asker, {"name": prompt}, None)))
    completing = {"argument": {"name": "a", "value": ""}}
    attempts.append(
        (
            may,
            lambda: gateway.resources.complete(
                asker, {"ref": {"type": "ref/prompt", "name": prompt}, **completing}, None
            ),
        )
    )
    template = f"mem://{name}templatex/{{n}}"
    may = policy.decide(asker, "read", f"{name}:{template}").allowed
    attempts.append(
        (
            may,
            lambda: gateway.resources.complete(
                asker, {"ref": {"type": "ref/resource", "uri": template}, **completing}, None
            ),
        )
    )
    for may, work in attempts:
        before = len(world.upstreams[name].requests)
        if may:
            await work()
        else:
            try:
                await work()
            except CatalogError:
                pass
            else:
                raise AssertionError("it was let through")
            assert len(world.upstreams[name].requests) == before
    assert len(world.upstreams[name].requests) >= seen


async def _subscribed(gateway: Any, asker: Caller, uri: str) -> None:
    await gateway.resources.subscribe(asker, uri)
    await gateway.resources.unsubscribe(asker, uri)
