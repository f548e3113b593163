"""What is looked at around a call: arguments, sizes, secrets, by project, server and tool."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from toolgate.errors import GuardError, RpcError, SettingError
from toolgate.gateway.gateway import Gateway
from toolgate.security.guards import CallGuards
from toolgate.settings import GuardTable, Settings
from toolgate.store import AuditFilter
from toolgate.testing import FakePeer, FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json
from toolgate.upstream import ToolContext, tool

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@dataclass(frozen=True)
class Named:
    """A tool of the server `files`."""

    name: str
    read_only: bool = False
    destructive: bool = True
    server: str = "files"
    digest: str = "d"

    @property
    def key(self) -> str:
        return f"files:{self.name}"


TOOLS = (Named("read", True, False), Named("write", destructive=False), Named("drop"))


@asynccontextmanager
async def guarded(
    *tables: GuardTable, **answers: Any
) -> AsyncGenerator[tuple[Gateway, list[Json]]]:
    """A gateway with the server `files`; gives it and what reached the server."""
    arrived: list[Json] = []

    def run(params: Json) -> Json:
        arrived.append(params["arguments"])
        text = str(params["arguments"].get("say", "done"))
        if text == "fail":
            raise RpcError(-32000, f"no luck with {KEY}", {"key": KEY})
        return text_result(text * int(params["arguments"].get("times", 1)))

    files = FakeUpstream(
        {"read": run, "write": run, "drop": run},
        definitions={
            "read": {"annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object"}},
            "write": {"annotations": {"destructiveHint": False}, "inputSchema": {"type": "object"}},
            "drop": {"inputSchema": {"type": "object"}},
        },
    )
    async with memory_app({"files": files}, Settings(guard=tables)) as app:
        yield app.gateway, arrived


async def say(gateway: Gateway, tool: str, **arguments: Any) -> str:
    """What the model hears."""
    result = await gateway.call(
        Caller.local(), {"name": f"files__{tool}", "arguments": arguments}, None
    )
    return ("error: " if result.get("isError") else "") + str(result["content"][0]["text"])


async def test_without_guards_everything_passes_as_it_is() -> None:
    async with guarded() as (gateway, arrived):
        assert await say(gateway, "drop", say=KEY) == KEY
        assert arrived == [{"say": KEY}]


async def test_an_argument_that_a_guard_denies_does_not_reach_the_server() -> None:
    table = GuardTable(
        tools=("files:*",),
        deny={"path": (r"^/etc/", r"\.ssh"), "*": ("rm -rf",), "options.mode": ("^force$",)},
        reason="Outside of the project.",
    )
    async with guarded(table) as (gateway, arrived):
        for arguments in (
            {"path": "/etc/shadow"},
            {"path": {"deep": ["x", "/home/a/.ssh/id"]}},
            {"command": ["sh", "-c", "rm -rf /"]},
            {"rm -rf": 1},
            {"options": {"mode": "force"}},
            {"options": [{"mode": "soft"}, {"mode": "force"}]},
            {"options": '{"mode": "force"}'},
            {"Options": {"MODE": "force"}},
            {"options.mode": "force"},
            {"Path": "/etc/shadow"},
            {"path": '["/etc/shadow"]'},
        ):
            heard = await say(gateway, "write", **arguments)
            assert heard.startswith("error: A guard does not allow")
            assert "Outside of the project." in heard
        assert arrived == []
        assert await say(gateway, "write", path="/srv/etc/x", options={"mode": "soft"}) == "done"


async def test_arguments_have_to_fit_the_schema_of_a_guard_beside_that_of_the_tool() -> None:
    schema = {"properties": {"limit": {"maximum": 10}}, "required": ["limit"]}
    async with guarded(GuardTable(tools=("files:read",), arguments=schema)) as (gateway, arrived):
        assert "limit" in await say(gateway, "read", other=1)
        heard = await say(gateway, "read", limit=11)
        assert heard.startswith(
            "error: A guard does not allow these arguments of files:read: limit"
        )
        assert await say(gateway, "read", limit=10) == "done"
        assert await say(gateway, "write", limit=11) == "done"
        assert arrived == [{"limit": 10}, {"limit": 11}]


async def test_json_in_a_text_has_to_fit_the_schema_of_a_guard_too() -> None:
    """Servers of the MCP SDK for Python read it as a list or an object."""
    schema = {
        "properties": {
            "note": {"type": "string"},
            "options": {"properties": {"limit": {"maximum": 10}}, "required": ["limit"]},
        }
    }
    async with guarded(GuardTable(tools=("files:read",), arguments=schema)) as (gateway, arrived):
        for arguments in (
            {"options": '{"limit": 11}'},
            {"options": '{"other": 1}'},
            {"OPTIONS": {"limit": 11}},
            {"options": {"limit": 1}, "Options": '"{\\"limit\\": 11}"'},
        ):
            heard = await say(gateway, "read", **arguments)
            assert heard.startswith("error: A guard does not allow these arguments"), arguments
        passed = {"note": '{"limit": 11}', "options": '{"limit": 10}'}
        assert await say(gateway, "read", **passed) == "done"
        assert arrived == [passed]


async def test_what_a_guard_says_holds_no_value_that_came() -> None:
    schema = {"properties": {"word": {"maxLength": 3}}}
    async with guarded(GuardTable(arguments=schema, deny={"*": ("ghp_",)})) as (gateway, _):
        assert KEY not in await say(gateway, "read", word=KEY)
        assert KEY not in await say(gateway, "read", other=KEY)


@pytest.mark.parametrize(
    ("table", "tools"),
    [
        (GuardTable(deny={"*": ("x",)}), {"read", "write", "drop"}),
        (GuardTable(tools=("files",), deny={"*": ("x",)}), {"read", "write", "drop"}),
        (GuardTable(tools=("other", "files:?r*"), deny={"*": ("x",)}), {"write", "drop"}),
        (GuardTable(hint="read_only", deny={"*": ("x",)}), {"read"}),
        (GuardTable(hint="destructive", deny={"*": ("x",)}), {"drop"}),
        (GuardTable(projects=("web",), deny={"*": ("x",)}), set[str]()),
        (GuardTable(projects=("default",), deny={"*": ("x",)}), {"read", "write", "drop"}),
    ],
)
def test_a_guard_is_about_tools_projects_and_marks(table: GuardTable, tools: set[str]) -> None:
    guards = CallGuards([table])
    assert {tool.name for tool in TOOLS if guards.for_tool("default", tool)} == tools


def test_marks_of_a_server_that_is_not_trusted_are_not_believed() -> None:
    read, _, _ = TOOLS
    tables = [GuardTable(hint="destructive", approver="user")]
    assert CallGuards(tables).for_tool("default", read) is None
    assert CallGuards(tables, is_trusted=lambda _: False).for_tool("default", read) is not None


async def test_sizes_are_limited_both_ways() -> None:
    table = GuardTable(max_argument_bytes=100, max_result_bytes=500)
    async with guarded(table) as (gateway, arrived):
        assert "are 113 bytes, and 100 are allowed" in await say(gateway, "read", text="x" * 102)
        assert arrived == []
        assert "The result is" in await say(gateway, "read", say="y", times=600)
        assert len(arrived) == 1
        assert await say(gateway, "read", say="y") == "y"


@pytest.mark.parametrize("where", ["arguments", "results"])
async def test_secrets_are_masked(where: str) -> None:
    async with guarded(GuardTable(**{f"secrets_in_{where}": "mask"})) as (gateway, arrived):  # type: ignore[arg-type]
        heard = await say(gateway, "read", say=f"the key {KEY}")
        masked = "the key [github_token masked]"
        assert heard == masked
        assert arrived == [{"say": masked if where == "arguments" else f"the key {KEY}"}]


@pytest.mark.parametrize("where", ["arguments", "results"])
async def test_secrets_are_blocked(where: str) -> None:
    async with guarded(GuardTable(**{f"secrets_in_{where}": "block"})) as (gateway, arrived):  # type: ignore[arg-type]
        heard = await say(gateway, "read", say=f"the key {KEY}")
        assert heard.startswith("error: The ")
        assert "github_token" in heard
        assert KEY not in heard
        assert len(arrived) == (0 if where == "arguments" else 1)


async def test_errors_of_a_server_hold_no_secrets_either() -> None:
    async with guarded(GuardTable(secrets_in_results="mask")) as (gateway, _):
        with pytest.raises(RpcError) as caught:
            await gateway.calls.execute(Caller.local(), "files:read", {"say": "fail"})
        assert KEY not in str(caught.value.message)
        assert KEY not in str(caught.value.data)


async def test_several_guards_hold_at_once_and_the_stricter_counts() -> None:
    async with guarded(
        GuardTable(secrets_in_results="mask", max_argument_bytes=1000),
        GuardTable(secrets_in_results="block", max_argument_bytes=25),
    ) as (gateway, _):
        assert "25 are allowed" in await say(gateway, "read", text="x" * 30)
        assert "not forwarded" in await say(gateway, "read", say="ab://u:s3cr3t@h")


async def test_what_guards_did_is_in_the_audit_without_what_they_saw() -> None:
    files = FakeUpstream({"read": lambda _: text_result(f"the key {KEY}")})
    tables = (GuardTable(secrets_in_results="mask", deny={"path": ("^/etc",)}),)
    async with memory_app({"files": files}, Settings(guard=tables)) as app:
        caller = Caller.local()
        await app.gateway.call(caller, {"name": "files__read", "arguments": {}}, None)
        refused = {"name": "files__read", "arguments": {"path": f"/etc/{KEY}"}}
        await app.gateway.call(caller, refused, None)
        await app.recorder.flush()
        records = await app.store.audit.select(AuditFilter(action="call"))
    assert [record.status for record in records] == ["guard", "ok", "ok"]
    assert records[0].detail["reason"].startswith("A guard does not allow the argument 'path'")
    assert records[1].detail["result_secrets"] == {"github_token": 1}
    assert KEY not in str(records)


@tool
async def talkative(context: ToolContext) -> str:
    """Says a secret on every way, and what it was answered."""
    await context.report_progress(1, 2, f"half, by {KEY}")
    await context.log("info", {"with": [KEY]})
    answer = await context.ask("elicitation/create", {"message": f"Is it {KEY}?"})
    return str(answer["content"]["said"])


@pytest.mark.parametrize("mode", ["mask", "block"])
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_what_a_server_says_in_the_middle_of_a_call_holds_no_secret(
    mode: str, era: str
) -> None:
    """Progress, messages and questions; answers of people are looked at like arguments."""
    table = GuardTable(secrets_in_results=mode, secrets_in_arguments=mode)  # type: ignore[arg-type]
    peer = FakePeer(
        era=era,
        capabilities={"elicitation": {}},
        answers={"elicitation/create": {"action": "accept", "content": {"said": f"It is {KEY}"}}},
        wants_progress=True,
        log_level="debug",
    )
    params: Json = {"name": "files__talkative", "arguments": {}}
    async with memory_app({"files": [talkative]}, Settings(guard=(table,))) as app:
        result = await app.gateway.call(Caller.local(), params, peer)
        if result.get("resultType") == "input_required":
            answers = dict.fromkeys(result["inputRequests"], peer.answers["elicitation/create"])
            params |= {"inputResponses": answers, "requestState": result["requestState"]}
            peer.messages.append(("asked", result))
            result = await app.gateway.call(Caller.local(), params, peer)
    assert {"progress", "log"} <= {what for what, _ in peer.messages}
    # What is withheld is a result; a question of the modern era is one.
    is_asked = era == "handshake" or mode == "mask"
    assert str(peer.messages).count("[github_token masked]") == (3 if is_asked else 2)
    assert KEY not in str(peer.messages)
    assert KEY not in str(result)


async def test_resources_and_prompts_of_a_guarded_server_are_looked_at_too() -> None:
    uri = f"mem://{KEY}"  # the answer says it
    for table, is_masked in (
        (GuardTable(tools=("files",), secrets_in_results="mask"), True),
        (GuardTable(tools=("files:read",), secrets_in_results="mask"), False),
    ):
        files = FakeUpstream({}, resources=({"uri": uri, "name": "one"},), prompts=({"name": KEY},))
        async with memory_app({"files": files}, Settings(guard=(table,))) as app:
            read = await app.gateway.resources.read(Caller.local(), {"uri": uri}, None)
            (prompt,) = json.loads(await app.gateway.listing.list_prompts(Caller.local()))
            got = await app.gateway.prompts.get(Caller.local(), {"name": prompt["name"]}, None)
        assert (KEY not in read["contents"][0]["text"]) is is_masked
        assert (KEY not in got["messages"][0]["content"]["text"]) is is_masked


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (GuardTable(deny={"a": ("(",)}, source="x.toml, line 3"), "x.toml, line 3: '('"),
        (GuardTable(deny={"a": (r"(?=x)",)}), "is not a regular expression"),
        (GuardTable(arguments={"type": "nothing"}), "not a JSON Schema"),
        (GuardTable(arguments={"$ref": "https://example.org/schema"}), "not a JSON Schema"),
    ],
)
def test_a_guard_that_cannot_work_is_refused_with_its_place(table: GuardTable, said: str) -> None:
    with pytest.raises(SettingError) as caught:
        CallGuards([table])
    assert said in str(caught.value)


def test_arguments_nested_too_deeply_end_nothing() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}
    guard = CallGuards([GuardTable(arguments={"properties": {}})]).for_tool("default", TOOLS[0])
    assert guard is not None
    for arguments in (deep, {"a": "[" * 50_000}, {"a": "[" * 200 + "]" * 200}):
        with pytest.raises(GuardError, match="nested deeper"):
            guard.arguments("files:read", arguments)


async def test_sql_for_postgresql_runs_no_code_of_users() -> None:
    """Issue: the same holds for the guard in front of other people's servers."""
    table = GuardTable(
        tools=("files:*",),
        sql={"query": "postgres"},
        columns={"orders": ("id", "home", "home.city")},
    )
    async with guarded(table) as (gateway, arrived):
        fine = await say(gateway, "read", query="select o.id, (o).id, (o.home).city from orders o")
        refused = [
            await say(gateway, "read", query=sql)
            for sql in (
                "select system('x')",
                "select o.wipe from orders o",
                "select (o).wipe from orders o",
                "select 1 <=> 2",
                "select 'x'::mytype",
                "select similarity('a', 'b')",
            )
        ]

    assert fine == "done"
    assert [answer.rpartition("rule: ")[2] for answer in refused] == [
        *("function).", "attribute).", "attribute).", "operator).", "type).", "function)."),
    ]
    assert len(arrived) == 1


async def test_sql_in_an_argument_has_to_be_one_statement_that_reads() -> None:
    """Issue: the guard of the pack sql can be put before any foreign SQL upstream."""
    table = GuardTable(tools=("files:*",), sql={"to.query": "postgres"}, reason="Read-only.")
    async with guarded(table) as (gateway, arrived):
        fine = await say(gateway, "read", to={"query": "select 1"})
        attack = await say(gateway, "read", to={"query": "select 1; commit; delete from orders"})
        long = await say(gateway, "read", to={"query": "select " + "1" * 30_000})

    assert fine == "done"
    assert attack == (
        "error: The SQL in the argument 'to.query' of files:read was refused: There is more "
        "than one statement; only one is run. Read-only. Allowed: one statement that only reads. "
        "Correct it (rule: several)."
    )
    assert "has 30,007 characters, and 20,000 are checked at most." in long
    assert len(arrived) == 1
