"""Tools as an administrator offers them: other names, texts and parameters than the server's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from tests.limits import HANG_S
from toolgate.errors import ArgumentError, ForbiddenError, SettingError, UnknownToolError
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.settings import PermissionTable, ProgramSettings, Settings, load
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Identity, Json, ParameterOverride, ToolOverride

ME = Caller.local()
ISSUE: Json = {
    "description": "Opens an issue.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "repo": {"type": "string"},
            "title": {"type": "string"},
            "labels": {"type": "string", "description": "Commas between them."},
        },
        "required": ["repo", "title", "labels"],
        "additionalProperties": False,
    },
}


class Tracker:
    """A server with two tools that remembers what it was sent."""

    def __init__(self) -> None:
        self.sent: list[Json] = []
        self.upstream = FakeUpstream(
            {"create_issue": self._called, "delete_repo": self._called},
            definitions={"create_issue": ISSUE},
        )

    def _called(self, params: Json) -> Json:
        self.sent.append(params)
        return text_result("done")


ALL = Settings(mode="all")

RENAMED = {
    "create_issue": ToolOverride(
        name="report_bug",
        description="Reports a bug to the team.",
        tags=("incident",),
        parameters={
            "repo": ParameterOverride(value="acme/app"),
            "labels": ParameterOverride(default="bug", description="Words."),
        },
    )
}


async def listed(app: Any) -> dict[str, Json]:
    return {tool["name"]: tool for tool in orjson.loads(await app.gateway.listing.list_tools(ME))}


async def test_everybody_sees_and_calls_the_tool_as_its_override_says() -> None:
    tracker = Tracker()
    async with memory_app({"hub": tracker.upstream}, ALL, tool_overrides=RENAMED) as app:
        tools = await listed(app)
        assert list(tools) == ["hub__report_bug", "hub__delete_repo"]
        shown = tools["hub__report_bug"]
        assert shown["description"] == "Reports a bug to the team."
        assert shown["_meta"] == {"toolgate/tags": ["incident"]}
        assert shown["inputSchema"]["required"] == ["title"]
        assert shown["inputSchema"]["properties"] == {
            "title": {"type": "string"},
            "labels": {"type": "string", "description": "Words.", "default": "bug"},
        }
        await app.gateway.calls.execute(ME, "hub:report_bug", {"title": "It breaks"})
        await app.gateway.calls.execute(ME, "hub:create_issue", {"title": "b", "labels": "c"})
        described = await app.gateway.discovery.describe(ME, ["hub:report_bug"])
        assert "hub:report_bug" in described.text
        assert "acme/app" not in described.text
        with pytest.raises(UnknownToolError, match="Nearest: hub:report_bug"):
            await app.gateway.calls.execute(ME, "hub:reportbugs", {})
        request = DiscoverRequest(queries=("incident",))
        discovery = await app.gateway.discovery.discover(ME, request)
    assert [(sent["name"], sent["arguments"]) for sent in tracker.sent] == [
        ("create_issue", {"title": "It breaks", "repo": "acme/app", "labels": "bug"}),
        ("create_issue", {"title": "b", "repo": "acme/app", "labels": "c"}),
    ]
    assert discovery.results[0].tool_key == "hub:report_bug"
    assert discovery.results[0].signature == "report_bug(title, labels?)"


async def test_a_fixed_parameter_cannot_be_given_by_a_caller() -> None:
    tracker = Tracker()
    overrides = {
        "delete_repo": ToolOverride(parameters={}),
        "create_issue": replace(RENAMED["create_issue"], name=""),
    }
    async with memory_app({"hub": tracker.upstream}, ALL, tool_overrides=overrides) as app:
        params: Json = {"name": "hub__create_issue", "arguments": {"title": "t", "repo": "o/app"}}
        with pytest.raises(ArgumentError, match="has no parameter 'repo'"):
            await app.gateway.call(ME, params, None)
    assert not tracker.sent


async def test_a_value_names_the_caller_and_is_refused_where_that_is_not_known() -> None:
    tracker = Tracker()
    parameters = {
        "repo": ParameterOverride(value="${user.name}/app"),
        "labels": ParameterOverride(value="${user.roles}"),
    }
    overrides = {"create_issue": ToolOverride(parameters=parameters)}
    identity = Identity(caller_id="u1", user="anna", roles=("dev", "ops"))
    anna = Caller(caller_id="u1", identity=identity)
    async with memory_app({"hub": tracker.upstream}, ALL, tool_overrides=overrides) as app:
        await app.gateway.calls.execute(anna, "hub:create_issue", {"title": "t"})
        with pytest.raises(ArgumentError, match="needs the name of its caller"):
            await app.gateway.calls.execute(ME, "hub:create_issue", {"title": "t"})
    (sent,) = tracker.sent
    assert sent["arguments"] == {"title": "t", "repo": "anna/app", "labels": ["dev", "ops"]}


async def test_a_hidden_tool_is_nowhere_and_says_so_to_administrators() -> None:
    tracker = Tracker()
    overrides = {"delete_repo": ToolOverride(hide=True)}
    async with memory_app({"hub": tracker.upstream}, ALL, tool_overrides=overrides) as app:
        assert list(await listed(app)) == ["hub__create_issue"]
        with pytest.raises(UnknownToolError):
            await app.gateway.calls.execute(ME, "hub:delete_repo", {})
        explained = await app.gateway.manage.visibility.explain(ME, "hub:delete_repo")
    assert not explained["visible"]
    assert "hide = true" in explained["stages"][-2]["reason"]


async def test_explain_says_what_is_overridden() -> None:
    tracker = Tracker()
    schema = {**ISSUE["inputSchema"], "properties": dict(ISSUE["inputSchema"]["properties"])}
    schema["properties"]["body"] = {"type": "string"}
    tracker.upstream.definitions["create_issue"] = {**ISSUE, "inputSchema": schema}
    parameters = {
        "repo": ParameterOverride(value="acme/app"),
        "labels": ParameterOverride(default="bug", hide=True),
        "title": ParameterOverride(description="One line."),
        "body": ParameterOverride(hide=True),
    }
    overrides = {"create_issue": ToolOverride(tags=("incident",), parameters=parameters)}
    async with memory_app({"hub": tracker.upstream}, ALL, tool_overrides=overrides) as app:
        explained = await app.gateway.manage.visibility.explain(ME, "hub:create_issue")
    (stage,) = [stage for stage in explained["stages"] if stage["stage"] == "override"]
    assert stage["reason"] == (
        "Parameter 'repo' is set by the gateway. Parameter 'labels' is set by the gateway."
        " Parameter 'title' has another description. Parameter 'body' is hidden and not sent."
        " It has additional search tags."
    )


async def test_rules_go_on_meaning_the_own_name_of_a_renamed_tool() -> None:
    """A tool that may not be used stays so, whatever it is called."""
    tracker = Tracker()
    rule = PermissionTable(to=("everyone",), allow=("hub:get_*",))
    settings = replace(ALL, auth="required", permission=(rule,))
    overrides = {"delete_repo": ToolOverride(name="get_repo")}
    guest = Caller(caller_id="g", identity=Identity(caller_id="g", kind="token", token="g"))
    async with memory_app({"hub": tracker.upstream}, settings, tool_overrides=overrides) as app:
        for key in ("hub:get_repo", "hub:delete_repo", "hub__get_repo"):
            with pytest.raises(UnknownToolError):
                await app.gateway.calls.execute(guest, key, {})
        found = await app.gateway.discovery.discover(guest, DiscoverRequest(queries=("repo",)))
        assert not found.results
    assert not tracker.sent


async def test_what_cannot_be_applied_is_named_and_never_gives_more_away() -> None:
    tracker = Tracker()
    overrides = {
        "create_issue": ToolOverride(parameters={"repository": ParameterOverride(value="a/b")}),
        "delete_repo": ToolOverride(name="create-issue"),
        "gone": ToolOverride(hide=True),
    }
    async with memory_app({"hub": tracker.upstream}, ALL, tool_overrides=overrides) as app:
        assert list(await listed(app)) == ["hub__delete_repo"]
        (status,) = app.gateway.servers.statuses(ME)
    assert status.override_problems == (
        "[server.hub.tools.gone] overrides a tool that the server does not offer.",
        "Tool 'delete_repo' is not renamed to 'create-issue': another tool is called so.",
        "The override of tool 'create_issue' names the parameter 'repository', which the tool does "
        "not have; it has: repo, title, labels. The tool is left out.",
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (ParameterOverride(value=5), "'repo' to int; the tool takes string"),
        (ParameterOverride(default=["a"]), "'repo' to list; the tool takes string"),
        (ParameterOverride(value=True), "'repo' to bool; the tool takes string"),
        (ParameterOverride(value="a/b"), ""),
        (ParameterOverride(value="${user.name}"), ""),
    ],
)
async def test_a_value_of_another_type_is_named(change: ParameterOverride, problem: str) -> None:
    """The tool stays: the server may take more than its schema says."""
    overrides = {"create_issue": ToolOverride(parameters={"repo": change})}
    async with memory_app({"hub": Tracker().upstream}, ALL, tool_overrides=overrides) as app:
        assert "hub__create_issue" in await listed(app)
        (status,) = app.gateway.servers.statuses(ME)
    assert problem in " ".join(status.override_problems)
    assert bool(status.override_problems) is bool(problem)


async def test_a_program_calls_a_renamed_tool_by_its_new_name() -> None:
    pytest.importorskip("pydantic_monty")
    tracker = Tracker()
    settings = replace(ALL, programs=ProgramSettings(offer="on"))
    async with memory_app({"hub": tracker.upstream}, settings, tool_overrides=RENAMED) as app:
        for code in ("await hub.report_bug(title='t')", "await hub.create_issue(title='t')"):
            params = {"name": "tool_program", "arguments": {"code": code}}
            result = await app.gateway.call(ME, params, None)
            assert ("isError" in result) is ("create_issue" in code), result
    (sent,) = tracker.sent
    arguments = {"title": "t", "repo": "acme/app", "labels": "bug"}
    assert (sent["name"], sent["arguments"]) == ("create_issue", arguments)


async def test_other_overrides_are_used_without_asking_the_server_again() -> None:
    tracker = Tracker()
    async with memory_app({"hub": tracker.upstream}, ALL, tool_overrides=RENAMED) as app:
        changed = replace(
            app.settings,
            servers=tuple(
                replace(spec, tool_overrides={"create_issue": ToolOverride(hide=True)})
                for spec in app.settings.servers
            ),
        )
        await app.reload(changed)
        assert list(await listed(app)) == ["hub__delete_repo"]
        await app.reload(
            replace(changed, servers=tuple(replace(s, tool_overrides={}) for s in changed.servers))
        )
        tools = await listed(app)
    assert list(tools) == ["hub__create_issue", "hub__delete_repo"]
    assert tools["hub__create_issue"]["inputSchema"] == ISSUE["inputSchema"]


async def test_the_audit_has_the_arguments_of_the_caller_and_those_that_were_sent() -> None:
    tracker = Tracker()
    async with memory_app(
        {"hub": tracker.upstream}, ALL, tool_overrides=RENAMED, audit="full"
    ) as app:
        await app.gateway.calls.execute(ME, "hub:report_bug", {"title": "It breaks"})
        await app.recorder.flush()
        (record,) = await app.store.audit.select(AuditFilter(action="call", phase="intent"))
    assert record.target == "hub:create_issue"
    assert record.detail["given"]["arguments"] == {"title": "It breaks"}
    assert record.detail["arguments"] == {
        "title": "It breaks",
        "repo": "acme/app",
        "labels": "bug",
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('[server.hub.tools.a]\nname = "b c"', "server.hub.tools.a.name is 'b c'."),
        (
            '[server.hub.tools.a]\nname = "b"\n[server.hub.tools.b]\nhide = true',
            "is 'b', which the tool 'b' of this server has.",
        ),
        (
            "[server.hub.tools.a.parameters.p]\nvalue = 1\ndefault = 2",
            "server.hub.tools.a.parameters.p has a value and a default.",
        ),
        (
            '[server.hub.tools.a.parameters.p]\nvalue = "${user.mail}"',
            "names ${user.mail}, which no caller has.",
        ),
        ('[server.hub.tools.a]\nnmae = "b"', "the key 'nmae'"),
    ],
    ids=["name", "collision", "both", "variable", "key"],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, lines: str, message: str) -> None:
    file = tmp_path / "toolgate.toml"
    file.write_text(f'[server.hub]\ncommand = "hub"\n{lines}\n', encoding="utf-8")
    with pytest.raises(SettingError) as caught:
        load(file, environ={})
    assert message in str(caught.value)


def test_the_file_gives_values_with_variables(tmp_path: Path) -> None:
    file = tmp_path / "toolgate.toml"
    file.write_text(
        '[server.hub]\ncommand = "hub"\n[server.hub.tools.a]\nname = "b"\ntags = ["x"]\n'
        '[server.hub.tools.a.parameters]\nowner = { value = "${user.name}-${env:TEAM}" }\n'
        'limit = { default = 5, description = "Rows." }\nraw = { hide = true }\n',
        encoding="utf-8",
    )
    (spec,) = load(file, environ={"TEAM": "red"}).servers
    assert spec.tool_overrides == {
        "a": ToolOverride(
            name="b",
            tags=("x",),
            parameters={
                "owner": ParameterOverride(value="${user.name}-red"),
                "limit": ParameterOverride(default=5, description="Rows."),
                "raw": ParameterOverride(hide=True),
            },
        )
    }


LOGIN: Json = {
    "description": "Logs in.",
    "inputSchema": {
        "type": "object",
        "properties": {"token": {"type": "string"}, "host": {"type": "string"}},
        "required": ["token", "host"],
    },
}


async def test_a_secret_value_is_stored_encrypted_and_stays_when_it_comes_back_hidden() -> None:
    sent: list[Json] = []

    def log_in(params: Json) -> Json:
        sent.append(params["arguments"])
        return text_result("in")

    upstream = FakeUpstream({"log_in": log_in}, definitions={"log_in": LOGIN})
    async with memory_app({"hub": upstream}) as app:
        overrides = app.gateway.manage.overrides
        table: Json = {"parameters": {"token": {"value": "hunter2"}}}
        first = await overrides.change(ME, "hub:log_in", table)
        assert first.override == {"parameters": {"token": {"value": "***"}}}
        assert "hunter2" not in repr(await app.store.servers.select(None))

        changed = await overrides.change(ME, "hub:log_in", {**first.override, "name": "enter"})
        assert changed.override["name"] == "enter"
        await app.gateway.calls.execute(ME, "hub:enter", {"host": "a"})
        assert sent == [{"token": "hunter2", "host": "a"}]

        await app.recorder.flush()
        kept = await app.store.audit.select(AuditFilter(action="override_tool"))
        assert len(kept) == 2
        assert "hunter2" not in repr(kept)
        await app.reload(app.settings)
        await app.gateway.calls.execute(ME, "hub:enter", {"host": "b"})
        assert sent[-1] == {"token": "hunter2", "host": "b"}
        assert (await overrides.remove(ME, "hub:enter")).override == {}
        assert "sealed" not in repr(await app.store.servers.select(None))


async def test_only_administrators_see_and_change_overrides() -> None:
    upstream = FakeUpstream({"log_in": lambda _: text_result("in")})
    async with memory_app({"hub": upstream}, Settings(auth="required")) as app:
        nobody = Caller(caller_id="t1", identity=Identity(caller_id="t1", kind="token"))
        for refused in (
            app.gateway.manage.overrides.show(nobody, "hub:log_in"),
            app.gateway.manage.overrides.change(nobody, "hub:log_in", {"hide": True}),
            app.gateway.manage.overrides.remove(nobody, "hub:log_in"),
        ):
            with pytest.raises(ForbiddenError):
                await refused


async def test_the_quarantine_compares_what_the_server_said() -> None:
    tracker = Tracker()
    async with memory_app({"hub": tracker.upstream}, Settings(quarantine="changed")) as app:
        table: Json = {"name": "report_bug", "description": "Reports a bug."}
        await app.gateway.manage.overrides.change(ME, "hub:create_issue", table)
        quarantine = app.gateway.manage.quarantine
        assert await quarantine.entries(ME) == []
        tracker.upstream.definitions["create_issue"] = {**ISSUE, "description": "Other."}
        await tracker.upstream.announce()
        with anyio.fail_after(HANG_S):
            while not (held := await quarantine.entries(ME)):
                await anyio.sleep(0.01)
        assert [entry.name for entry in held] == ["create_issue"]
        await app.gateway.manage.overrides.change(ME, "hub:create_issue", {"tags": ["x"]})
        assert [entry.name for entry in await quarantine.entries(ME)] == ["create_issue"]
