"""Pages for administrators: activity, audit filters, previews of rules, settings and packs."""

import html
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.console.console_client import notes, open_console, visible_text
from tests.packs.pack_files import write_files
from toolgate.base.ids import new_id, utc_now
from toolgate.console.charts import lines
from toolgate.settings import AuditSettings, AuthnSettings, PackSettings, Settings, load
from toolgate.settings.clients.supported import launch_of_this_program
from toolgate.store import StoredDetection
from toolgate.types import AuditRecord, Caller

ADMIN = Caller.local(client="desk", conversation="talk")


def file_settings(folder: Path, text: str) -> Settings:
    """The settings of a `toolgate.toml`."""
    path = folder / "toolgate.toml"
    path.write_text(text, encoding="utf-8")
    return load(path)


async def test_home_shows_each_period_with_the_busiest_tools_and_servers() -> None:
    async with open_console() as place:
        for _ in range(3):
            await place.app.gateway.calls.execute(ADMIN, "notes:find", {})
        await place.app.gateway.calls.execute(ADMIN, "notes:fail", {})
        await place.app.recorder.flush()
        for period in ("hour", "day", "week", "month"):
            page = await place.page("", range=period)
            told = visible_text(page)
            assert f"Calls 4 in the last {period}" in told
            assert "Errors 25.0 % 1 failed" in told
            assert "notes:find 3 0 %" in told
            assert page.count('class="chart"') == 4
            assert f"Failed calls in the last {period}: 1 call," in page
        server = visible_text(await place.page("server", name="notes"))
        assert "Calls 4 in the last hour" in server
        assert "find()" in server


async def test_a_line_of_a_chart_has_gaps_where_nothing_was_measured() -> None:
    """It rose for half an hour to the one slow call after a pause."""
    values = [("a", (1.0,)), ("b", (2.0,)), ("c", (None,)), ("d", (2.0,))]
    drawn = lines(values, label="Latency", kinds=("median",))
    assert re.findall(r'points="([^"]+)"', drawn) == ["2,21.0 7,2.0", "17,2.0 21,2.0"]


async def test_home_of_a_new_gateway_helps_with_the_first_server_and_client() -> None:
    async with open_console({}) as place:
        page = await place.page()
        assert 'href="/console/servers/add?pick=github"' in page
        add = await place.page("servers/add", pick="github")
        assert 'value="npx -y @modelcontextprotocol/server-github"' in add
        gallery = re.compile(r'servers/add\?pick=([\w-]+)"')
        assert gallery.findall(await place.page("servers/add", q=" Read-only ")) == ["postgres"]
        assert "No matching servers." in await place.page("servers/add", q="xylophone")
        assert "GITHUB_PERSONAL_ACCESS_TOKEN=${env:GITHUB_PERSONAL_ACCESS_TOKEN}" in add
        snippets = _snippets(await place.page("connect"))
        address = "http://127.0.0.1:7420/mcp"
        launch = launch_of_this_program()
        entry = {"command": launch.command, "args": ["stdio"], "env": {"PATH": launch.search_path}}
        assert Path(launch.command).is_absolute()
        assert [json.loads(text) for text in snippets if text.startswith("{")] == [
            {"mcpServers": {"toolgate": entry}},
            {"mcpServers": {"toolgate": {"url": address}}},
            {"servers": {"toolgate": {"type": "http", "url": address}}},
            {"mcpServers": {"toolgate": {"serverUrl": address}}},
            {"mcpServers": {"toolgate": {"httpUrl": address}}},
        ]
        [codex] = [text for text in snippets if text.startswith("[")]
        assert tomllib.loads(codex) == {"mcp_servers": {"toolgate": {"url": address}}}


async def test_snippets_of_a_gateway_with_tokens_have_room_for_one() -> None:
    async with open_console({}, settings=Settings(auth="required")) as place:
        made = await place.app.gateway.admin.create_token(ADMIN, "anna", roles=["admin"])
        await place.send("login", 303, csrf=await place.csrf(), token=made.secret)
        snippets = _snippets(await place.page("connect"))
        for text in snippets:
            if text.startswith("{"):
                [servers] = json.loads(text).values()
                entry = servers["toolgate"]
                assert "TOKEN" in str(entry.get("headers") or entry["env"])
        [codex] = [text for text in snippets if text.startswith("[")]
        assert "bearer_token_env_var" in tomllib.loads(codex)["mcp_servers"]["toolgate"]


async def test_a_client_elsewhere_gets_a_bridge_to_this_gateway() -> None:
    """Its entry started Toolgate, which found no gateway on that machine and started one."""
    address = "http://gateway.example.org/mcp"
    settings = Settings(auth="required", authn=AuthnSettings(resource=address))
    async with open_console({}, settings=settings) as place:
        made = await place.app.gateway.admin.create_token(ADMIN, "anna", roles=["admin"])
        await place.send("login", 303, csrf=await place.csrf(), token=made.secret)
        first = next(text for text in _snippets(await place.page("connect")) if text[0] == "{")
    header = ["--header", "Authorization:${AUTHORIZATION}"]
    entry = {
        "command": "npx",
        "args": ["-y", "mcp-remote", address, "--allow-http", *header],
        "env": {"AUTHORIZATION": "Bearer TOKEN"},
    }
    assert json.loads(first) == {"mcpServers": {"toolgate": entry}}


def _snippets(page: str) -> list[str]:
    texts = re.findall(r'<pre class="code"[^>]*>(.*?)</pre>', page, re.DOTALL)
    return [html.unescape(text) for text in texts]


async def test_tools_are_grouped_by_server_and_sorted_by_use() -> None:
    async with open_console() as place:
        await place.app.gateway.calls.execute(ADMIN, "notes:fail", {})
        for _ in range(2):
            await place.app.gateway.calls.execute(ADMIN, "notes:find", {})
        await place.app.recorder.flush()
        keys = re.compile(r'class="key" href="/console/tool\?key=notes%3A(\w+)"')
        page = await place.page("tools")
        assert '<th scope="rowgroup"' in page
        assert keys.findall(await place.page("tools", sort="-calls"))[:2] == [
            "find",
            "fail",
        ]
        assert keys.findall(await place.page("tools", sort="-errors"))[0] == "fail"
        page = await place.page("tools", sort="-tokens")
        assert keys.findall(page)[0] == "add"
        assert '<option value="-tokens" selected>' in page  # filters keep the order
        for sort in ("calls", "-calls"):
            found = await place.page("tools", q="find notes", sort=sort)
            assert keys.findall(found)[0 if sort == "-calls" else -1] == "find"


async def test_a_search_is_compared_with_another_configuration() -> None:
    async with open_console(settings=Settings(optimization="bm25")) as place:
        await place.app.gateway.admin.save_project(Caller.local(), "web", settings={}, new=True)
        page = visible_text(await place.page("search", q="add a note", compare="project:web"))
        assert "As configured" in page
        assert "With project web" in page
        plain = visible_text(await place.page("search", q="add a note"))
        assert "As configured" not in plain


async def test_the_audit_is_searched_and_filters_are_saved() -> None:
    async with open_console(settings=Settings(audit=AuditSettings(keep_queries=True))) as place:
        admin = place.app.gateway.admin
        await admin.add_permissions(
            ADMIN, effect="deny", patterns=["notes:add"], to=["role:reader"]
        )
        await place.app.gateway.calls.execute(ADMIN, "notes:find", {})
        await place.app.recorder.flush()
        told = visible_text(await place.page("audit"))
        assert "deny notes:add to role:reader" in told
        found = visible_text(await place.page("audit", q="reader"))
        assert "permission rule added" in found
        assert "notes:find" not in found
        live = await place.page("audit", live="1")
        assert 'hx-trigger="calls-changed from:body, every 3s"' in live
        saved = await place.send("audit?q=reader", name="readers")
        assert saved.headers["location"].endswith("/console/audit?q=reader")
        assert 'href="/console/audit?q=reader"' in await place.page("audit")
        await place.send("audit", name="readers", do="forget")
        assert 'href="/console/audit?q=reader"' not in await place.page("audit")
        link = re.search(
            r'href="/console/(audit/chain\?id=\w+)"', await place.page("audit", q="find")
        )
        assert link is not None
        chain = await place.page(link[1])
        talk = re.search(r'href="/console/(audit/conversation\?[^"]+)"', chain)
        assert talk is not None
        assert "notes:find" in await place.page(talk[1].replace("&amp;", "&"))


async def test_a_rule_shows_what_it_matches_before_it_is_saved() -> None:
    async with open_console({"notes": notes()}) as place:
        answer = await place.send(
            "permissions", 200, patterns="notes:f*", pick="notes", to="everyone", do="preview"
        )
        told = visible_text(answer.text)
        assert re.search(r"notes:f\* 2 tools notes:fi?\w+, notes:f\w+", told)
        assert re.search(r"notes 3 tools ", told)
        assert "Add a rule" in told
        assert await place.app.gateway.admin.permissions(Caller.local()) == []
        told = visible_text(await place.page("options/preview", tools="*", hint="read_only"))
        assert "* 1 tool notes:find" in told
        assert "is not a permission pattern" in visible_text(
            await place.page("options/preview", patterns="a=b")
        )
        assert "notes:find" in await place.page("options", pick="fin")
        wrong = await place.send("permissions", 400, effect="deny", patterns="notes", to="nobody?")
        assert 'id="to-wrong"' in wrong.text
        await place.send("permissions", effect="deny", patterns="notes", to="everyone")
        told = visible_text((await place.client.get("/console/permissions")).text)
        assert "1 rule added." in told


async def test_settings_are_shown_with_their_source_and_changed_with_the_difference(
    tmp_path: Path,
) -> None:
    settings = file_settings(
        tmp_path, "# Ours.\nversion = 1\n\n[discovery]\nbudget_tokens = 900 # enough\n"
    )
    path = tmp_path / "toolgate.toml"
    before = path.read_text(encoding="utf-8")
    async with open_console(settings=settings) as place:
        told = visible_text(await place.page("settings", source="file"))
        assert "budget_tokens 900 file" in told
        assert "max_name_chars" not in told
        assert "quarantine" in await place.page("settings", q="quarantine")
        page = visible_text(await place.page("setting", name="discovery.budget_tokens"))
        assert "Source file" in page
        wrong = await place.send(
            "setting", 400, name="discovery.budget_tokens", value="1", do="check"
        )
        assert re.search(r'id="value-wrong">.*discovery', wrong.text)
        unknown = await place.send("setting", 400, name="optimization", value='"fast"', do="check")
        assert "'fast' does not exist. Available: bm25" in visible_text(unknown.text)
        shown = await place.send("setting", 200, name="mode", value='"all"', do="check")
        assert 'is: + mode = "all"' in visible_text(shown.text)
        assert path.read_text(encoding="utf-8") == before
        state = re.search(r'name="state" value="(\w+)"', shown.text)
        assert state is not None
        await place.send("setting", name="mode", value='"all"', state=state[1], do="save")
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# Ours.\n")
        assert 'mode = "all"\n' in text
        assert "budget_tokens = 900 # enough" in text
        late = await place.send("setting", 400, name="mode", value='"meta"', state="x", do="save")
        assert "was changed in the meantime" in visible_text(late.text)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == [
            "toolgate.toml",
            "toolgate.toml.toolgate-previous",
        ]


async def test_settings_are_folded_by_table_unless_changed_or_searched(tmp_path: Path) -> None:
    settings = file_settings(tmp_path, "version = 1\n\n[discovery]\nbudget_tokens = 900\n")
    async with open_console(settings=settings) as place:
        every, found = await place.page("settings"), await place.page("settings", q="drain")
    sections = re.findall(
        r'<details class="section"( open)?><summary><h2 class="mono">(.*?)<', every
    )
    unfolded = [table for is_open, table in sections if is_open]
    assert unfolded == ["toolgate.toml", "[discovery]", "[store]"]
    assert len(sections) > 10
    assert "1 changed" in visible_text(every)
    assert re.search(r'<details class="section" open><summary><h2 class="mono">\[serve\]', found)


@pytest.mark.parametrize(
    ("page", "field", "value"),
    [
        ("project", "budget_tokens", "7"),
        ("project", "limit_calls_per_minute", "abc"),
        ("project", "pinned", "x y"),
        ("project", "pick", "nothing"),
        ("guards", "tools", "a=b=c"),
        ("guards", "pick", "resource=docs:*"),
        ("guards", "deny", "[a,b"),
        ("guards", "projects", "nope"),
        ("guards", "max_result_bytes", "x"),
    ],
)
async def test_an_error_is_shown_at_the_field_it_is_about(
    page: str, field: str, value: str
) -> None:
    form = {"tools": "*", "approver": "user"} if page == "guards" else {"do": "save"}
    async with open_console() as place:
        if page == "project":
            await place.app.gateway.admin.save_project(Caller.local(), "web", settings={}, new=True)
            state = re.search(r'name="state" value="(\w+)"', await place.page(page, name="web"))
            assert state is not None
            form |= {"name": "web", "state": state[1]}
        answer = await place.send(page, 400, **{**form, field: value})
    shown = re.search(f'<p class="wrong" id="{field}-wrong">(.*?)</p>', answer.text)
    assert shown is not None, visible_text(answer.text)
    assert value in shown[1]
    assert re.search(f'id="{field}"[^>]* aria-invalid="true"', answer.text)


async def test_a_token_that_may_do_nothing_is_shown_as_such() -> None:
    warning = "This token has no rights yet"
    async with open_console({}, settings=Settings()) as place:
        reader = await place.send("tokens", 200, name="reader", roles="reader")
        assert warning not in visible_text(reader.text)
        nobody = await place.send("tokens", 200, name="nobody")
        assert warning in visible_text(nobody.text)
        assert warning in visible_text(await place.page("token", name="nobody"))
        await place.send("permissions", effect="allow", patterns="notes", to="everyone")
        assert warning not in visible_text(await place.page("token", name="nobody"))


async def test_a_picked_tool_is_added_to_the_pinned_ones() -> None:
    async with open_console() as place:
        await place.app.gateway.admin.save_project(Caller.local(), "web", settings={}, new=True)
        offered = await place.page("options", only="tools", pick="no")
        assert "notes:find" in offered
        assert ">notes<" not in offered, "a server cannot be pinned"
        state = re.search(r'name="state" value="(\w+)"', await place.page("project", name="web"))
        assert state is not None
        await place.send(
            "project",
            name="web",
            state=state[1],
            do="save",
            pinned="notes:add",
            pick="notes:find",
        )
        saved = await place.app.gateway.admin.project(Caller.local(), "web")
        assert saved.settings.pinned == ("notes:add", "notes:find")


async def test_settings_of_a_gateway_built_in_python_are_not_called_defaults() -> None:
    async with open_console({}, settings=Settings(optimization="bm25")) as place:
        shown = visible_text(await place.page("settings", source="code"))
        assert 'optimization "bm25" code' in shown
        assert "quarantine" not in shown, "it has its default"
        page = visible_text(await place.page("setting", name="optimization"))
        assert "Source code Default" in page


async def test_cost_does_not_wait_for_the_fortnight_that_finds_unused_servers() -> None:
    """Regression: a quiet day was counted while the page waited, but 14 days were read for it."""
    async with open_console({}) as place:
        long_ago = AuditRecord(
            record_id="",
            at=utc_now(plus_s=-10 * 86_400),
            action="call",
            server="notes",
            target="notes:find",
        )
        many = [replace(long_ago, record_id=new_id()) for _ in range(2_001)]
        await place.app.store.audit.append(many)
        assert "This period has many records" in await place.page("cost", days="1")


async def test_a_few_of_many_tokens_are_found() -> None:
    async with open_console({}) as place:
        admin = place.app.gateway.admin
        await admin.create_token(ADMIN, "anna", roles=["member"], groups=["Web"])
        await admin.create_token(ADMIN, "build-server", roles=["reader"])
        by_group = visible_text(await place.page("tokens", q="web"))
        assert "anna valid" in by_group
        assert "build-server valid" not in by_group
        assert "No matching tokens. Show all 2" in visible_text(await place.page("tokens", q="x9"))


async def test_a_message_without_a_clear_intent_is_listed_once() -> None:
    settings = Settings(audit=AuditSettings(keep_queries=True))
    async with open_console({}, settings=settings) as place:
        for _ in range(3):
            await place.page("intents", message="Please water the plants")
        await place.app.notes.flush()
        page = visible_text(await place.page("intents"))
        assert page.count("Please water the plants") == 2, "in the list and among the examples"


async def test_only_messages_near_an_intent_are_offered_as_its_prompts() -> None:
    """A question about the weather became a prompt of the intent that was least far from it."""
    settings = Settings(audit=AuditSettings(keep_queries=True))
    async with open_console({}, settings=settings) as place:
        far = StoredDetection(
            detection_id=new_id(),
            at=utc_now(),
            project_id="default",
            caller_id="anna",
            outcome="none",
            rival="rooms",
            rival_confidence=0.03,
            message="How is the weather?",
        )
        near = replace(far, detection_id=new_id(), rival_confidence=0.4, message="Is Oslo free?")
        await place.app.store.detections.append([far, near])
        page = await place.page("intents")
        rooms = page.partition("intents/rooms.txt")[2].partition("</pre>")[0]
        unsupported = page.partition("unsupported.txt</bdi>")[2].partition("</pre>")[0]
        assert "Is Oslo free?" in rooms
        assert "weather" not in rooms
        assert "How is the weather?" in unsupported


async def test_the_page_of_a_pack_shows_its_tools_and_the_code_of_its_programs(
    tmp_path: Path,
) -> None:
    """People review a program before they let models call it."""
    pytest.importorskip("pydantic_monty")
    code = 'async def main(days: int = 14):\n    """List late orders."""\n    return days < 3\n'
    write_files(tmp_path, {"pack.toml": 'name = "sales"\n', "programs/late.py": code})
    settings = Settings(packs=PackSettings(paths=(str(tmp_path),)))
    async with open_console(settings=settings) as place:
        page = await place.page("pack", name="sales")
        assert '<a class="key" href="/console/tool?key=sales%3Alate">' in page
        assert "List late orders." in visible_text(page)
        assert "return days &lt; 3" in page


async def test_secrets_are_not_on_the_page_of_settings(tmp_path: Path) -> None:
    settings = file_settings(
        tmp_path, 'version = 1\n[store]\nurl = "postgresql://me:hidden-word@db.example/x"\n'
    )
    async with open_console(settings=replace(settings)) as place:
        assert "hidden-word" not in await place.page("settings")
        assert "hidden-word" not in await place.page("setting", name="store.url")


async def test_a_pack_is_enabled_and_shows_prompts_rules_and_its_check(tmp_path: Path) -> None:
    settings = file_settings(tmp_path, "version = 1\n")
    async with open_console(settings=settings) as place:
        told = visible_text(await place.page("packs"))
        assert re.search(r"schema [\d. ]*enabled", told), told[:2000]
        page = await place.page("pack", name="schema", check="1")
        assert "<h3>Prompts" in page
        assert "<h3>Rules</h3>" in page
        assert 'id="checked"' in page
        await place.send("packs", name="servoy", do="enable")
        assert 'enable = ["servoy"]' in (tmp_path / "toolgate.toml").read_text(encoding="utf-8")
        renewed = 'hx-get="/console/packs" hx-trigger="load delay:2500ms"'
        assert renewed in (await place.client.get("/console/packs")).text
        assert renewed not in await place.page("packs")
