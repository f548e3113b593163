"""Servers in the console: those of files, several at once, sorted and filtered."""

import html
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

import toolgate.testing
from tests.console.console_client import notes, open_console, visible_text
from tests.limits import HANG_S
from toolgate.app.app import open_app
from toolgate.errors import SettingError, UnknownToolError
from toolgate.server.http import build_app
from toolgate.settings import ProgramSettings, Settings, StoreSettings, load
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Caller, Json

ECHO = Path(toolgate.testing.__file__).parent / "echo_server.py"
ADMIN = Caller.local()


def configuration(folder: Path, text: str) -> Path:
    """A `toolgate.toml` in a folder."""
    path = folder / "toolgate.toml"
    path.write_text(text, encoding="utf-8")
    return path


def sent_by_form(page: str) -> dict[str, Any]:
    """What a browser sends for the form of an override if nothing is changed in it."""
    areas = re.findall(r'<textarea[^>]* name="([^"]*)"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    inputs = re.findall(r'<input[^>]* name="([^"]*)"[^>]* value="([^"]*)"', page)
    selects = re.findall(r'<select[^>]* name="([^"]*)".*?value="([^"]*)" selected', page, re.DOTALL)
    return {name: html.unescape(value) for name, value in (*areas, *inputs, *selects)}


async def test_a_server_of_toolgate_toml_is_changed_and_removed_there(tmp_path: Path) -> None:
    command = f"command = {sys.executable!r}\nargs = [{str(ECHO)!r}]\n"
    path = configuration(tmp_path, f"# Ours.\nversion = 1\n\n# The echo.\n[server.echo]\n{command}")
    before = path.read_text(encoding="utf-8")
    settings = replace(load(path), store=StoreSettings(url="sqlite://"))
    async with open_app(settings, wait_s=30) as app:
        servers = app.gateway.manage.servers
        await servers.enable(ADMIN, "echo", False)
        assert "# The echo.\n[server.echo]\nenabled = false\n" in path.read_text(encoding="utf-8")
        await servers.enable(ADMIN, "echo", True)
        await servers.allow_tools(ADMIN, "echo", ["echo"], allowed=False)
        text = path.read_text(encoding="utf-8")
        assert "[server.echo]\ntool_permissions = { echo = false }\n" in text
        assert text.startswith("# Ours.\n")
        status = app.gateway.servers.status(ADMIN, "echo")
        assert status is not None
        assert status.overridden == ()
        await servers.allow_tools(ADMIN, "echo", ["echo"], allowed=True)
        assert path.read_text(encoding="utf-8") == before
        await servers.remove(ADMIN, "echo")
        assert "echo" not in path.read_text(encoding="utf-8")
        assert await app.store.servers.select(None) == []
    assert tmp_path.joinpath("toolgate.toml.toolgate-previous").exists()
    assert tmp_path.joinpath("toolgate.toml.toolgate-backup").read_text("utf-8") == before


async def test_a_server_of_a_client_file_is_overridden_in_the_store(tmp_path: Path) -> None:
    client = tmp_path / "client.json"
    client.write_text(
        f'{{"mcpServers": {{"echo": {{"command": "{sys.executable}", "args": ["{ECHO}"]}}}}}}',
        encoding="utf-8",
    )
    before = client.read_text(encoding="utf-8")
    path = configuration(tmp_path, 'version = 1\nimport = ["client.json"]\n')
    store = StoreSettings(url=f"sqlite:///{tmp_path / 'toolgate.db'}")
    settings = replace(load(path), store=store)
    async with open_app(settings, wait_s=30) as app:
        await app.gateway.manage.servers.enable(ADMIN, "echo", False)
    async with open_app(settings, wait_s=30) as app:
        status = app.gateway.servers.status(ADMIN, "echo")
        assert status is not None
        assert (status.state, status.overridden) == ("disabled", ("enabled",))
        await app.gateway.manage.servers.remove(ADMIN, "echo")
    async with open_app(settings, wait_s=30) as app:
        assert app.gateway.servers.names(ADMIN) == []
        assert app.gateway.manage.servers.removed(ADMIN) == {"echo": str(client)}
        await app.gateway.manage.servers.restore(ADMIN, "echo")
        status = app.gateway.servers.status(ADMIN, "echo")
        assert status is not None
        assert status.overridden == ()
    assert client.read_text(encoding="utf-8") == before


async def test_names_with_numbers_are_sorted_by_the_numbers() -> None:
    servers: dict[str, object] = {
        name: FakeUpstream({f"tool{name[1:]}": lambda _: text_result("x")})
        for name in ("s10", "s2", "s1")
    }
    async with open_console(servers) as place:
        names = re.compile(r'<th scope="row"><a href="/console/server\?name=(\w+)"')
        page = await place.page("servers", sort="name")
        assert names.findall(page) == ["s1", "s2", "s10"]
        keys = re.compile(r'href="/console/tool\?key=(s\d+)%3A')
        page = await place.page("tools", sort="-name")
        assert keys.findall(page) == ["s10", "s2", "s1"]
        palette = visible_text(await place.page("go", q="s"))
        assert palette.index("s2 ") < palette.index("s10 ")


async def test_servers_are_sorted_filtered_and_changed_together() -> None:
    small = FakeUpstream({"only": lambda _: text_result("x")})
    async with open_console({"notes": notes(), "small": small}) as place:
        names = re.compile(r'<th scope="row"><a href="/console/server\?name=(\w+)"')
        assert names.findall(await place.page("servers")) == ["notes", "small"]
        page = await place.page("servers", sort="tools")
        assert names.findall(page) == ["small", "notes"]
        assert 'aria-sort="ascending"' in page
        assert names.findall(await place.page("servers", q="sma")) == ["small"]
        assert names.findall(await place.page("servers", transport="stdio")) == []
        await place.send("servers", name=["notes", "small"], do="disable")
        states = {status.name: status.state for status in place.app.gateway.servers.statuses(ADMIN)}
        assert states == {"notes": "disabled", "small": "disabled"}
        assert "2 servers are disabled." in visible_text(
            (await place.client.get("/console/servers")).text
        )
        await place.send("servers", only="enable small")
        await place.send("servers", 400, do="enable")
        assert names.findall(await place.page("servers", state="disabled")) == ["notes"]


async def test_tools_of_a_server_are_disabled_together_in_one_change() -> None:
    async with open_console() as place:
        await place.send("server", name="notes", tool=["add", "fail"], allowed="false", do="switch")
        told = visible_text((await place.client.get("/console/server?name=notes")).text)
        assert "2 tools are disabled for everyone." in told
        assert [one.key for one in place.app.gateway.visible.tools(ADMIN)] == ["notes:find"]
        await place.app.recorder.flush()
        assert "notes:add, notes:fail off" in visible_text(await place.page("audit"))
        refused = await place.send("server", 400, name="notes", allowed="true", do="switch")
        assert "Select tools first." in visible_text(refused.text)


async def test_the_palette_finds_pages_servers_and_tools() -> None:
    async with open_console() as place:
        page = await place.page("go")
        assert 'href="/console/servers"' in page
        page = await place.page("go", q="notes fi")
        assert 'href="/console/tool?key=notes%3Afind"' in page
        assert 'href="/console/tool?key=notes%3Aadd"' not in page
        assert "Add a permission rule" in await place.page("go", q="rule")


async def test_a_tool_is_offered_as_its_form_says_after_a_preview() -> None:
    async with open_console() as console:
        form = await console.page("override", key="notes:add")
        assert "As the server describes it" in form
        fields: dict[str, Any] = {"key": "notes:add", "name": "write", "tags": "pen paper"}
        # Required parameters come first: text, tags, times, kind.
        fields |= {"a0-mode": "default", "a0": "hello", "a0-description": "What to say."}
        fields |= {"a1-mode": "value", "a1": "x\ny", "a2-mode": "hide"}
        preview = await console.send("override?key=notes:add", 200, do="preview", **fields)
        assert "Nothing is saved yet" in preview.text
        assert "What to say." in visible_text(preview.text)
        shown = await console.app.gateway.manage.overrides.show(ADMIN, "notes:add")
        assert shown.override == {}

        await console.send("override?key=notes:add", do="save", **fields)
        shown = await console.app.gateway.manage.overrides.show(ADMIN, "notes:write")
        assert shown.override == {
            "name": "write",
            "tags": ["pen", "paper"],
            "parameters": {
                "text": {"default": "hello", "description": "What to say."},
                "tags": {"value": ["x", "y"]},
                "times": {"hide": True},
            },
        }
        # It is switched off by its own name: `write` would be another tool.
        await console.send("server", name="notes", tool="add", allowed="false", do="switch")
        told = await console.page("server", name="notes")
        assert re.search(r'value="add" aria-label.*?aria-pressed="false"', told, re.DOTALL)
        with pytest.raises(UnknownToolError):
            await console.app.gateway.calls.execute(ADMIN, "notes:write", {})
        await console.send("server", name="notes", tool="add", allowed="true", do="switch")
        assert 'name="tool" value="add"' in await console.page("server", name="notes")
        result = await console.app.gateway.calls.execute(ADMIN, "notes:write", {})
        assert result["content"][0]["text"] == "added 'hello' ['x', 'y']"
        again = await console.page("override", key="notes:add")
        assert 'value="write"' in again
        assert '<option value="hide" selected>' in again
        assert "with changes" in visible_text(await console.page("tool", key="notes:add"))

        wrong = fields | {"a2-mode": "value", "a2": "many"}
        refused = await console.send("override?key=notes:add", 400, do="save", **wrong)
        assert "must be of type integer" in visible_text(refused.text)
        assert "pen paper" in refused.text

        await console.send("override?key=notes:add", do="remove", key="notes:add")
        assert (await console.app.gateway.manage.overrides.show(ADMIN, "notes:add")).override == {}


async def test_saving_the_form_of_an_override_again_changes_nothing() -> None:
    """Lists became one line of JSON, and what the form has no choice for was offered to callers."""
    parameters: Json = {
        "text": {"default": "hello", "hide": True, "description": "What."},
        "tags": {"value": ["x", "[y"]},
        "times": {"value": 0},
        "kind": {"default": "short"},
        "api_key": {"value": "secret"},
        "loud": {"value": False},
        "more": {"default": "5"},
    }
    listed: Json = {
        "plain": {"type": "string"},
        "text": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "times": {"type": "integer"},
        "kind": {"enum": ["short", "long"]},
        "api_key": {"type": "string"},
        "loud": {"type": "boolean"},
        "more": {},
    }
    tool: Json = {"inputSchema": {"type": "object", "properties": listed, "required": ["plain"]}}
    async with open_console({"notes": notes(add=tool)}) as console:
        overrides = console.app.gateway.manage.overrides
        await overrides.change(ADMIN, "notes:add", {"parameters": parameters})
        form = await console.page("override", key="notes:add")
        await console.send("override?key=notes:add", do="save", **sent_by_form(form))
        shown = (await overrides.show(ADMIN, "notes:add")).override["parameters"]
        # Always sent and not shown to callers, both before and after.
        parameters["text"] = {"value": "hello", "description": "What."}
        parameters["api_key"] = {"value": "***"}
        assert shown == parameters

        # A secret that is always sent does not become a default, which callers see.
        shows_it: Json = {"api_key": {"default": "***"}}
        with pytest.raises(SettingError, match="still masked"):
            await overrides.change(ADMIN, "notes:add", {"parameters": shows_it})

        wrong = {**sent_by_form(form), "a6": "yes"}
        refused = await console.send("override?key=notes:add", 400, do="save", **wrong)
        assert "loud must be of type boolean, but is 'yes'" in visible_text(refused.text)


async def test_many_servers_come_in_pages_that_keep_filter_and_order() -> None:
    upstreams: dict[str, object] = {f"s{n:03}": FakeUpstream({}) for n in range(57)}
    async with open_console(upstreams) as place:
        first = await place.page("servers", sort="-name")
        names = re.findall(r'aria-label="Select (s\d+)"', first)
        assert (len(names), names[0], names[-1]) == (50, "s056", "s007")
        assert "57 servers." in visible_text(first)
        following = re.search(r'href="([^"]*)" rel="next"', first)
        assert following is not None
        assert all(part in following[1] for part in ("page=2", "sort=-name"))
        last = await place.page("servers", sort="-name", page="2")
        assert re.findall(r'aria-label="Select (s\d+)"', last) == [
            f"s{n:03}" for n in range(6, -1, -1)
        ]
        few = await place.page("servers", q="s00", page="9")
        assert len(re.findall(r'aria-label="Select (s\d+)"', few)) == 10
        assert 'rel="next"' not in few


async def test_what_programs_left_behind_is_shown_and_deleted() -> None:
    pytest.importorskip("pydantic_monty")
    settings = Settings(programs=ProgramSettings(offer="on"))
    async with open_console(settings=settings) as console:
        assert "Paused programs and saved values" not in await console.page("approvals")
        program = {"name": "tool_program", "arguments": {"code": 'await store("<b>", [1, 2])'}}
        assert "isError" not in await console.app.gateway.call(ADMIN, program, None)
        page = await console.page("approvals")
        assert "Paused programs and saved values" in page, visible_text(page)[-900:]
        assert "Saved value <b>" in visible_text(page), visible_text(page)[900:2500]
        (value,) = await console.app.gateway.kept_programs.values(ADMIN)
        await console.send("approvals", do="forget", id=value.id)
        assert "Paused programs and saved values" not in await console.page("approvals")


async def test_a_url_of_another_kind_is_no_command_in_the_form() -> None:
    async with open_console({}) as place:
        form = {"kind": "form", "name": "files", "place": "ftp://files.example/mcp"}
        tried = (await place.send("servers/check", 400, **form, do="test")).text
    assert "url of server.files is not a server URL. Expected: http://HOST" in visible_text(tried)
    assert re.search(r'id="place"[^>]* aria-invalid="true"', tried)


async def test_equal_servers_of_several_clients_are_offered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were listed twice, and adding both failed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    shared = {"command": "no-such-wiki", "args": ["-y"]}
    files: dict[str, dict[str, Any]] = {
        ".cursor/mcp.json": {"wiki": shared, "mine": {"url": "http://127.0.0.1:9/mcp"}},
        ".claude.json": {"wiki": shared},
        ".gemini/settings.json": {
            "mine": {"url": "http://127.0.0.1:9/other"},
            "needy": {"command": "no-such-program", "env": {"K": "${NEEDY_KEY}"}},
            "odd": {"args": []},
        },
    }
    for name, servers in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    async with open_console({}) as place:
        page = await place.page("servers/add", found="1")
        offered = [
            json.loads(html.unescape(one))
            for one in re.findall(r'name="take" value="([^"]+)', page)
        ]
        names = [one["name"] for one in offered]
        assert names == ["wiki", "mine", "mine-gemini", "needy"]
        said = visible_text(page)
        assert 'title="~/.claude.json, ~/.cursor/mcp.json"><bdi>Claude Code, Cursor</bdi>' in page
        assert "called mine-gemini here" in said
        assert "odd in Gemini CLI, ~/.gemini/settings.json: " in said
        ticked = re.findall(r'name="take" value="[^"]+" [^>]*?(checked)?>', page)
        assert ticked == ["checked", "checked", "checked", ""]
        assert "needs NEEDY_KEY, which is not set" in said
        take = [json.dumps(one) for one in offered[:3]]
        tested = await place.send("servers/check", 200, kind="found", take=take, do="test")
        assert visible_text(tested.text).count("Failed: ") == 3
        assert "0 of 3 servers work" in visible_text(tested.text)
        await place.send("servers/save", take=take)
        assert place.app.gateway.servers.names(ADMIN) == ["wiki", "mine", "mine-gemini"]
        again = await place.page("servers/add", found="1")
        assert visible_text(again).count("already added") == 3


async def test_a_server_that_is_down_comes_first_with_the_reason_it_printed(tmp_path: Path) -> None:
    """The console said `exited with status 1`, `toolgate status` what the server had printed."""
    reason = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock"
    config = {"command": sys.executable, "args": ["-c", f"import sys; sys.exit({reason!r})"]}
    async with open_console({"notes": notes()}) as place:
        await place.app.gateway.manage.servers.add(ADMIN, "broken", config)
        with anyio.fail_after(HANG_S):
            while not any(one.state == "down" for one in place.app.gateway.servers.statuses(ADMIN)):
                await anyio.sleep(0.05)
        page = await place.page("servers")
        rows = re.findall(r'<th scope="row"><a href="/console/server\?name=(\w+)"', page)
        assert rows == ["broken", "notes"]
        for text in (page, await place.page(""), await place.page("server", name="broken")):
            assert reason in visible_text(text)
        assert "Start Docker: " in visible_text(await place.page("server", name="broken"))


async def test_a_server_that_lacks_a_variable_is_not_offered_to_be_enabled(tmp_path: Path) -> None:
    """The button was refused."""
    text = '[server.{}]\ncommand = "x"\nenv = {{ T = "{}" }}\nenabled = {}\n'
    lacks, off = text.format("lacks", "${env:NO_SUCH}", "true"), text.format("off", "1", "false")
    settings = load(configuration(tmp_path, lacks + off))
    settings = replace(settings, store=StoreSettings(url="sqlite://"), allow_other_users=True)
    async with open_app(settings) as app:
        transport = httpx2.ASGITransport(app=build_app(app))  # pyright: ignore[reportArgumentType]
        base, headers = "http://127.0.0.1:7420/console", {"Sec-Fetch-Site": "same-origin"}
        async with httpx2.AsyncClient(
            transport=transport, base_url=base, headers=headers
        ) as client:
            for name, is_offered in (("lacks", False), ("off", True)):
                page = visible_text((await client.get("server", params={"name": name})).text)
                assert "disabled" in page
                assert ("Enable" in page) == is_offered
                assert ("export NO_SUCH=VALUE" in page) != is_offered
            home = visible_text((await client.get("")).text)
            reason = "It needs the variable NO_SUCH, which is not set."
            assert f"lacks is not usable. {reason}" in home
            assert "off is" not in home


async def test_many_tools_of_a_server_can_be_filtered() -> None:
    described: dict[str, Json] = {
        "add": {"description": "Adds a note to the notebook."},
        "find": {"description": "Finds notes."},
        **{f"list_{number}": {"description": "Lists."} for number in range(20)},
    }
    tools = dict.fromkeys(described, lambda _: text_result("done"))
    async with open_console({"notes": FakeUpstream(tools, definitions=described)}) as console:
        assert "Filter by name or description" in await console.page("server", name="notes")
        for word, shown in (("FIN", "find"), ("notebook", "add")):
            page = await console.page("server", name="notes", q=word)
            assert re.findall(r'aria-label="Select (\w+)"', page) == ["all", shown]
        assert "No tool matches." in await console.page("server", name="notes", q="absent")
        await console.page("server", name="notes", q="find")
        done = await console.client.post(
            "/console/server?name=notes&q=find",
            data={
                "csrf": await console.csrf(),
                "name": "notes",
                "tool": "find",
                "allowed": "false",
                "do": "switch",
            },
        )
        assert done.headers["location"] == "/console/server?name=notes&q=find"
        page = await console.page("server", name="notes", q="find")
        assert 'name="tool" value="find"' in page
    async with open_console() as console:
        assert "Filter by name" not in await console.page("server", name="notes")


async def test_filtering_the_tools_of_a_server_keeps_the_period_and_the_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolgate.console.pages.servers._MOST_TOOLS", 10)
    tools = {f"list_{number}": lambda _: text_result("done") for number in range(25)}
    async with open_console({"notes": FakeUpstream(tools)}) as console:
        page = await console.page("server", name="notes", q="list", range="week")
        assert '<input type="hidden" name="range" value="week">' in page
        assert "/console/server?name=notes&amp;range=day&amp;q=list#activity" in page
        assert '<a href="/console/tools?server=notes&amp;q=list">15 more tools' in page
        form = re.search(r'action="([^"]*)" id="bulk"', page)
        assert form is not None
        switched = await console.client.post(
            html.unescape(form[1]),
            data={
                "csrf": await console.csrf(),
                "name": "notes",
                "tool": "list_1",
                "allowed": "false",
                "do": "switch",
            },
        )
        assert switched.headers["location"] == "/console/server?name=notes&q=list&range=week"
