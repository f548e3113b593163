"""What pages show and do, asked as a browser would without scripts."""

import io
import re
import zipfile
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import anyio
import pytest

import toolgate.console
from tests.console.console_client import HOSTILE, notes, open_console, visible_text
from tests.limits import HANG_S
from toolgate.base import plugins
from toolgate.errors import ToolgateError
from toolgate.evaluation.answers import AnswerRun, JudgedAnswer, TurnVariant
from toolgate.evaluation.results import evaluations_file, note_evaluations
from toolgate.evaluation.saved_answer_runs import runs_folder, save_run
from toolgate.evaluation.search_metrics import read_labelled
from toolgate.gateway.meta_tools import DiscoverRequest
from toolgate.settings import AuditSettings, GuardTable, Settings, load
from toolgate.testing import FakeUpstream, text_result
from toolgate.types import Caller, Json, ServerSpec

PAGES = (
    "", "servers", "server?name=notes", "servers/add", "tools", "tool?key=notes:add", "search",
    "search?q=add+a+note", "intents", "projects", "tokens", "permissions", "guards", "logins",
    "go", "go?q=note", "connect", "packs", "settings", "setting?name=mode", "options",
    "server/log?name=notes", "project?name=default", "why", "why?tool=notes:add", "approvals",
    "audit", "audit/verify", "sessions", "cost", "chat", "evaluation",
    "documents", "prompts", "prompt?name=vs-grade", "connections", "connections/log",
)  # fmt: skip


async def test_every_page_of_a_new_gateway_says_what_to_do_next() -> None:
    async with open_console({}) as place:
        assert "1. Add a server" in await place.page()
        assert "No servers connected yet" in await place.page("servers")
        assert "No tools available to you yet" in await place.page("tools")
        for path in PAGES:
            if "=" not in path:
                assert 'class="skip"' in await place.page(path)


async def test_every_page_can_be_read_without_scripts_and_styles() -> None:
    async with open_console() as place:
        for path in PAGES:
            page = await place.page(path)
            assert page.count("<h1") == 1, path
            assert '<main id="content"' in page
            assert len(re.findall(r'aria-current="page"', page)) <= 1


async def test_texts_of_servers_are_never_markup() -> None:
    """HTML, scripts, bidirectional text, 100 kB."""
    async with open_console(settings=Settings(quarantine="off")) as place:
        for path in ("tools", "tool?key=notes:odd", "search?q=gnp+exe"):
            page = await place.page(path)
            assert "<script>alert" not in page
            assert "\u202e" not in page
            assert "49 " not in visible_text(page)[:200]
            assert len(page) < 200_000, path
        page = await place.page("tool", key="notes:odd")
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "U+202E right-to-left override" in page
        assert "more characters" in page
        result = await place.client.post(
            "/console/tool", params={"key": "notes:odd"},
            data={"csrf": await place.csrf(), "key": "notes:odd"},
        )  # fmt: skip
        assert "<script>alert" not in result.text
        assert HOSTILE[:20] in visible_text(result.text)


async def test_a_tool_is_run_with_what_was_typed() -> None:
    async with open_console() as place:
        done = await place.send(
            "tool", 200, key="notes:add", a0="hello\r\nworld", a1="one\ntwo", a2="", a3=""
        )
        assert "added 'hello\\nworld' ['one', 'two']" in visible_text(done.text)
        done = await place.send("tool", 200, key="notes:add", raw='{"text": "raw"}', a0="field")
        assert "added 'raw' None" in visible_text(done.text)
        done = await place.send("tool", 200, key="notes:fail")
        assert "The tool returned an error" in visible_text(done.text)


async def test_what_was_typed_stays_when_it_does_not_fit() -> None:
    async with open_console() as place:
        done = await place.send("tool", 400, key="notes:add", a0="keep <this>", a2="many")
        assert "times must be of type integer, but is 'many'" in visible_text(done.text)
        assert 'value="keep &lt;this&gt;"' in done.text or ">keep &lt;this&gt;<" in done.text
        assert 'value="many"' in done.text
        done = await place.send("tool", 400, key="notes:add", a1="x")
        assert "text" in visible_text(done.text)


async def test_a_form_from_elsewhere_changes_nothing() -> None:
    async with open_console() as place:
        await place.page("tokens")
        for csrf in ("", "0" * 64):
            answer = await place.client.post(
                "/console/tokens", data={"csrf": csrf, "name": "mallory"}
            )
            assert answer.status_code == 403
        answer = await place.client.post(
            "/console/tokens",
            data={"csrf": await place.csrf(), "name": "mallory"},
            headers={"sec-fetch-site": "cross-site"},
        )
        assert answer.status_code == 403
        answer = await place.client.post(
            "/console/tokens",
            data={"csrf": await place.csrf(), "name": "mallory"},
            headers={"origin": "https://evil.example"},
        )
        assert answer.status_code == 403
        answer = await place.client.get("/console", headers={"host": "rebound.example"})
        assert answer.status_code == 421
        assert await place.app.gateway.admin.tokens(Caller.local()) == []


async def test_a_server_that_was_pasted_is_tested_and_added() -> None:
    pasted = '{"mcpServers": {"gone": {"command": "/nowhere/at-all", "env": {"KEY": "sk-secret"}}}}'
    async with open_console() as place:
        found = await place.send("servers/check", 200, kind="json", text=pasted, do="test")
        assert "Failed:" in visible_text(found.text)
        assert "sk-secret" not in visible_text(found.text)
        taken = re.search(r'name="take" value="([^"]+)"', found.text)
        assert taken is not None
        text = taken[1].replace("&#34;", '"')
        done = await place.send("servers/save", take=text)
        assert done.headers["location"].endswith("/console/server?name=gone")
        assert "gone was added" in await place.page("server", name="gone")
        assert "sk-secret" not in await place.page("server", name="gone")
        await place.send("server", name="gone", do="disable")
        assert "disabled" in await place.page("server", name="gone")
        await place.send("server", name="gone", do="remove")
        missing = await place.page("server", status=404, name="gone")
        assert "may have been removed" in missing


async def test_a_tool_that_is_gone_is_answered_with_words_for_people() -> None:
    async with open_console() as place:
        missing = visible_text(await place.page("tool", status=404, key="notes:ad"))
    assert "There is no tool 'notes:ad'." in missing
    assert "See the list of tools." in missing
    assert "tool_discovery" not in missing


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "No JSON given"),
        ("{", "pasted.json"),
        ('{"mcpServers": {"a": 1}}', "is not a server"),
        ('{"mcpServers": {}}', "No server given"),
    ],
)
async def test_what_is_no_configuration_is_said_to_be_none(text: str, says: str) -> None:
    async with open_console({}) as place:
        answer = await place.send("servers/check", 400, kind="json", text=text)
        assert says in visible_text(answer.text)


async def test_a_server_that_no_file_holds_is_overridden_in_the_store() -> None:
    """Decision 68: what cannot be written to a file is an override, and shown as one."""
    async with open_console() as place:
        await place.send("server", name="notes", tool="add", do="switch", allowed="false")
        tools = {tool.key for tool in place.app.gateway.visible.tools(Caller.local())}
        assert "notes:add" not in tools
        assert "notes:find" in tools
        await place.send("server", name="notes", do="disable")
        page = visible_text(await place.page("server", name="notes"))
        assert "disabled" in page
        assert "Overridden in the store enabled, tool_permissions" in page
        await place.send("server", name="notes", do="enable")
        await place.send("server", name="notes", do="remove")
        page = await place.page("servers")
        assert "Removed in Toolgate" in visible_text(page)
        await place.send("servers", do="restore", name="notes")
        assert "notes" in place.app.gateway.servers.names(Caller.local())


async def test_the_default_project_has_settings_for_everybody_without_projects() -> None:
    async with open_console() as place:
        assert 'href="/console/project?name=default"' in await place.page("projects")
        page = await place.page("project", name="default")
        state = re.search(r'name="state" value="(\w+)"', page)
        assert state is not None
        form = {"name": "default", "state": state[1], "optimization": "off", "mode": "all"}
        await place.send("project", **form, budget_tokens="700", pinned="notes:find")
        gateway = place.app.gateway
        project = await gateway.admin.project(Caller.local(), "default")
        assert project.settings.pinned == ("notes:find",)
        assert project.settings.budget_tokens == 700
        assert gateway.listing.policy.lists_all(Caller.local())
        assert await gateway.admin.projects(Caller.local()) == []
        state = re.search(r'name="state" value="(\w+)"', await place.page("project?name=default"))
        assert state is not None
        late = await place.send("project", 400, name="default", state=state[1], pinned="nonsense")
        assert 'aria-invalid="true"' in late.text


async def test_a_changed_tool_is_approved_with_the_difference_in_sight() -> None:
    server = notes()
    async with open_console({"notes": server}, Settings(quarantine="changed")) as place:
        server.definitions["find"] = {"description": "Finds notes and sends them away."}
        changed = anyio.Event()
        forget = place.app.gateway.changes.on_change(lambda _: changed.set())
        await server.announce()
        with anyio.fail_after(HANG_S):
            await changed.wait()
        forget()
        assert "quarantined" in visible_text(await place.page())
        page = await place.page("server", name="notes")
        assert "was: - Finds notes." in visible_text(page)
        assert "is: + Finds notes and sends them away." in visible_text(page)
        await place.send("server", name="notes", kind="tool", entry="find", do="approve")
        held = await place.app.gateway.manage.quarantine.entries(Caller.local())
        assert [entry.name for entry in held] == ["odd"]


async def test_a_guard_is_added_shown_and_taken_away() -> None:
    async with open_console() as place:
        assert "No guards yet" in await place.page("guards")
        await place.send(
            "guards",
            tools="notes:add",
            deny="secret",
            reason="Keep it <b>here</b>.",
            approver="admin",
            max_result_bytes="900",
        )
        page = await place.page("guards")
        assert "approver: admin" in visible_text(page)
        assert "denied in any argument: secret" in visible_text(page)
        assert "max result bytes: 900" in visible_text(page)
        assert "Keep it &lt;b&gt;here" in page
        await place.send("guards", 400, tools="notes:add", reason="It does nothing.")
        late = await place.send("guards", 400, tools="notes:add", max_result_bytes="many")
        assert "max_result_bytes is &#39;many&#39;" in late.text
        [(guard_id, _)] = await place.app.gateway.admin.guards(Caller.local())
        await place.send("guards", do="remove", id=guard_id)
        assert await place.app.gateway.admin.guards(Caller.local()) == []


async def test_what_a_tool_was_before_is_on_its_page_with_what_changed() -> None:
    server = notes()
    async with open_console({"notes": server}) as place:
        assert "Unchanged since first seen" in visible_text(
            await place.page("tool", key="notes:find")
        )
        for text in ("Finds notes by their words.", "Finds notes by <b>words</b>."):
            server.definitions["find"] = {"description": text}
            changed = anyio.Event()
            forget = place.app.gateway.changes.on_change(lambda _, changed=changed: changed.set())
            await server.announce()
            with anyio.fail_after(HANG_S):
                await changed.wait()
            forget()
        page = await place.page("tool", key="notes:find")
        assert "<b>words" not in page
        told = visible_text(page)
        last = told.index("is: + Finds notes by <b>words</b>.")
        assert last < told.index("was: - Finds notes. is: + Finds notes by their words.")
        answer = await place.client.get("/api/v1/tools/versions", params={"key": "notes:find"})
        [newest, oldest] = answer.json()["versions"]
        assert newest["definition"]["description"] == "Finds notes by their words."
        assert oldest["state"] == "accepted"
        assert oldest["differences"][0]["where"] == "description"
        await place.page("tool", status=404, key="notes:none")


async def test_two_people_who_edit_one_project_are_told() -> None:
    async with open_console() as place:
        await place.send("projects", name="web")
        page = await place.page("project", name="web")
        state = re.search(r'name="state" value="(\w+)"', page)
        assert state is not None
        form = {"name": "web", "state": state[1], "optimization": "bm25", "shared_servers": "true"}
        await place.send("project", **form)
        late = await place.send(
            "project", 400, **form | {"optimization": "off", "pinned": "notes:add"}
        )
        assert "was changed by someone else" in visible_text(late.text)
        assert "Saved value: bm25" in visible_text(late.text)
        assert "notes:add</textarea>" in late.text
        state = re.search(r'name="state" value="(\w+)"', late.text)
        assert state is not None
        await place.send("project", **form | {"optimization": "off", "state": state[1]})
        [project] = await place.app.gateway.admin.projects(Caller.local())
        assert project.settings.optimization == "off"


async def test_saving_a_project_keeps_the_search_of_a_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = EntryPoint("mine", "toolgate.search.strategies.bm25", "toolgate.search")
    installed = plugins._installed
    monkeypatch.setattr(
        plugins,
        "_installed",
        lambda kind: {"mine": plugin} if kind == "search" else installed(kind),
    )
    async with open_console() as place:
        await place.send("projects", name="web")
        await place.app.gateway.admin.save_project(
            Caller.local(), "web", settings={"optimization": "mine"}
        )
        page = await place.page("project", name="web")
        state = re.search(r'name="state" value="(\w+)"', page)
        select = re.search(r'<select id="optimization".*?</select>', page, re.DOTALL)
        assert state is not None
        assert select is not None
        values = re.findall(r'<option value="(\w*)"', select[0])
        assert values == ["", "off", "bm25", "hybrid", "cloud", "mine"]
        selected = re.findall(r'<option value="(\w*)" selected', select[0])
        assert selected == ["mine"]

        await place.send(
            "project", name="web", state=state[1], optimization=selected[0], pinned="notes:add"
        )

        [project] = await place.app.gateway.admin.projects(Caller.local())
        assert project.settings.optimization == "mine"
        assert project.settings.pinned == ("notes:add",)


async def test_the_audit_reads_as_a_chain_and_is_verified() -> None:
    async with open_console() as place:
        await place.page("search", q="add a note to the notebook")
        await place.send("tool", 200, key="notes:add", a0="x")
        await place.app.recorder.flush()
        page = await place.page("audit", action="call")
        link = re.search(r'href="/console/(audit/chain\?id=\w+)"', page)
        assert link is not None
        chain = visible_text((await place.client.get(f"/console/{link[1]}")).text)
        expected = ("Query", "add a note to the notebook", "Results", "chosen", "Called", "Result")
        for word in expected:
            assert word in chain, chain
        verified = await place.send("audit/verify", 200)
        assert "The audit log is intact" in visible_text(verified.text)
        lines = (await place.client.get("/console/audit/export")).text.splitlines()
        assert len(lines) == 3


async def test_the_audit_says_what_was_changed_and_who_did_it() -> None:
    async with open_console() as place:
        made = await place.app.gateway.admin.create_token(Caller.local(), "anna", roles=["admin"])
        anna = Caller.local(caller_id=f"token:{made.row.token_id}", client="desk")
        await place.app.gateway.discovery.discover(anna, DiscoverRequest(queries=("add a note",)))
        await place.app.recorder.flush()
        page = await place.page("audit")
        assert "token created anna" in visible_text(page)
        assert "anna desk" in visible_text(page)
        link = re.search(r'href="/console/(audit/chain\?id=\w+)"', page)
        assert link is not None
        assert "by anna with desk" in visible_text(await place.page(link[1]))


async def test_a_call_that_awaits_approval_is_not_shown_as_failed() -> None:
    guard = GuardTable(tools=("notes:find",), approver="user", reason="Somebody should look.")
    async with open_console(settings=Settings(guard=(guard,))) as place:
        with pytest.raises(ToolgateError, match="approv"):
            await place.app.gateway.calls.execute(Caller.local(), "notes:find", {})
        await place.app.recorder.flush()
        assert 'class="ended waits">awaiting approval<' in await place.page("audit")


async def test_calls_are_decided_together_in_a_browser() -> None:
    guard = GuardTable(tools=("notes:find",), approver="user", reason="Somebody should look.")
    async with open_console(settings=Settings(guard=(guard,))) as place:
        place.client.headers["sec-fetch-site"] = "same-origin"
        for number in range(3):
            with pytest.raises(ToolgateError, match="approv"):
                await place.app.gateway.calls.execute(
                    Caller.local(), "notes:find", {"number": number}
                )
        page = await place.page("approvals")
        ids = re.findall(r'form="bulk" name="id" value="(\w+)"', page)
        assert len(ids) == 3
        await place.send("approvals", id=ids[:2], do="reject")
        told = visible_text((await place.client.get("/console/approvals")).text)
        assert "2 calls were rejected." in told
        assert "1 call waiting for approval" in told
        refused = await place.send("approvals", 400, do="reject")
        assert "Select calls first." in visible_text(refused.text)

        # What was decided meanwhile does not keep the others from being decided.
        await place.send("approvals", id=[ids[0], ids[2], ids[1]], do="approve")
        told = visible_text((await place.client.get("/console/approvals")).text)
        assert "The call of notes:find was approved for one run. 2 failed: " in told
        assert all(f"has decided about {decided} at" in told for decided in ids[:2])
        states = {row.approval_id: row.state for row in await place.app.gateway.approvals.search(
            Caller.local()
        )}  # fmt: skip
        assert states == {ids[0]: "rejected", ids[1]: "rejected", ids[2]: "approved"}
        refused = await place.send("approvals", 400, id=ids[:2], do="approve")
        assert ids[0] in visible_text(refused.text)


async def test_a_pack_is_checked_on_the_page_of_intents() -> None:
    async with open_console() as place:
        page = await place.page("intents")
        assert '<a href="/console/packs">' in page
        assert 'href="/console/intents?check=schema#checked"' in page
        told = visible_text(await place.page("intents", check="schema"))
        assert re.search(r"schema : (nothing is wrong|\d+ errors)", told), told
        assert "also trains a classifier" in told
        assert "also trains a classifier" not in visible_text(
            await place.page("intents", check="no")
        )


async def test_calls_that_run_are_on_the_first_page_until_they_end() -> None:
    server = notes()
    server.silent.add("tools/call")
    async with open_console({"notes": server}) as place, anyio.create_task_group() as tasks:
        assert "No running calls" in visible_text(await place.page())
        began, ended = anyio.Event(), anyio.Event()
        changes = [began, ended]
        forget = place.app.gateway.calls.on_running(lambda: changes.pop(0).set())
        desk = Caller.local(client="desk")
        tasks.start_soon(place.app.gateway.calls.execute, desk, "notes:find", {})
        with anyio.fail_after(HANG_S):
            await began.wait()
            for path in ("", "running"):
                assert "notes:find local desk for" in visible_text(await place.page(path))
            answer = await place.client.get("/api/v1/running")
            [call] = answer.json()["running"]
            assert call["tool"] == "notes:find"
            assert call["client"] == "desk"
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await ended.wait()
                forget()
                assert "No running calls" in visible_text(await place.page("running"))


async def test_names_with_slashes_and_quotes_have_pages() -> None:
    name = "a/b?c=\"d\"&'e'#f"
    tools = {name: notes().tools["find"]}
    async with open_console({"odd": FakeUpstream(tools)}) as place:
        page = await place.page("tools")
        link = re.search(r'class="key" href="/console/(tool\?key=[^"]+)"', page)
        assert link is not None
        answer = await place.client.get(f"/console/{link[1]}")
        assert answer.status_code == 200
        assert name in visible_text(answer.text)


async def test_the_page_of_logins_shows_what_is_kept_and_forgets_it() -> None:
    """A console page for logins at servers; no secret is on it."""
    spec = ServerSpec(name="mail", kind="http", options={"url": "http://127.0.0.1:9/mcp"})
    async with open_console() as place:
        await place.app._catalog.add(spec)
        logins = place.app.logins
        await logins.give(Caller.local(), "mail", headers={"X-Key": "hidden-value"}, env={})
        logins.links.base = "http://127.0.0.1:7420"
        page = await place.page("logins")
        assert "X-Key" in page
        assert "hidden-value" not in page
        assert 'href="http://127.0.0.1:7420/oauth/login/' in page
        assert ">Log in</a>" in await place.page("server", name="mail")
        assert ">Log in</a>" not in await place.page("server", name="notes")
        await place.send("logins", server="mail", subject="")
        assert "No stored credentials" in await place.page("logins")


async def test_other_weights_are_for_this_view_alone() -> None:
    async with open_console() as place:
        plain = await place.page("search", q="add a note")
        assert "Weights for this search only" in visible_text(plain)
        other = visible_text(await place.page("search", q="add a note", dense_weight="0"))
        assert "Weights apply to hybrid search only" in other
        wrong = visible_text(await place.page("search", 400, q="add a note", dense_weight="many"))
        assert "Weights are numbers from 0 to 1" in wrong
        assert "custom weights" not in visible_text(await place.page("search", q="add a note"))


async def test_marks_are_downloaded_as_an_evaluation_set(tmp_path: Path) -> None:
    settings = Settings(optimization="bm25", audit=AuditSettings(keep_queries=True))
    async with open_console(settings=settings) as place:
        refused = visible_text(await place.page("evaluation/marks", 400))
        assert "no request with a tool that worked" in refused
        await place.page("search", q="add a note")
        await place.send("search", key="notes:add", q="add a note", limit="5", mark="right")
        answer = await place.client.get("/console/evaluation/marks")
        assert answer.status_code == 200, visible_text(answer.text)
        with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
            packed.extractall(tmp_path)
        found = read_labelled(tmp_path / "marks")
        [question] = found.questions
        assert question.text == "add a note"
        assert question.groups == (frozenset({"notes:add"}),)
        assert {tool.key for tool in found.tools} >= {"notes:add", "notes:odd"}


async def test_evaluations_are_shown_over_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    async with open_console() as place:
        assert "No measurements yet" in visible_text(await place.page("evaluation"))
        for share in (0.5, 0.75):
            rows = [("<b>set</b>", "hybrid", 4, {"R@5": share, "MRR": 0.4})]
            note_evaluations("tools", rows, path=evaluations_file())
        page = await place.page("evaluation")
        assert "<b>set" not in page
        told = visible_text(page)
        assert "R@5 0.750 +0.250" in told
        assert "R@5 0.500 , MRR 0.400" in told


async def test_answers_are_compared_question_by_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    async with open_console() as place:
        assert "toolgate eval answers" in visible_text(await place.page("evaluation"))
        assert "No such evaluation" in visible_text(
            await place.page("evaluation/answers", 400, run="../x")
        )
        judged = JudgedAnswer(
            id="q1",
            question="<b>Who?</b>",
            expected="IT",
            answer="It is IT [1].",
            sources=("vpn.md",),
            rank=2,
            correctness=0.5,
            faithfulness=1.0,
            tokens=1234,
            cost=0.0,
            seconds=0.5,
        )
        lost = replace(judged, answer="", rank=0, correctness=None, error="down")
        runs = [
            AnswerRun(variant=TurnVariant(name="settings"), answers=(judged,)),
            AnswerRun(variant=TurnVariant(name="top_k=1"), answers=(lost,)),
        ]
        run_id = save_run(runs_folder(), "handbook", "main", runs)
        assert f"evaluation/answers?run={run_id}" in await place.page("evaluation")
        page = await place.page("evaluation/answers", run=run_id)
        assert "<b>Who" not in page
        assert 'aria-label="settings, hit@5: 1.000"' in page
        told = visible_text(page)
        assert "partly correct" in told
        assert "The passage with the answer was ranked 2. The documents support the answer." in told
        assert "was not among the first ten" in told
        assert "No answer. down" in told


async def test_a_search_answered_from_the_cache_has_a_duration() -> None:
    """It was shown as `0.0 ms`."""
    async with open_console() as place:
        await place.page("search", q="add a note")
        page = visible_text(await place.page("search", q="add a note"))
        assert re.search(r"tools searched in (<0\.1|\d[\d.]*) ms", page), page[-900:]
        assert " 0.0 ms" not in page


async def test_names_are_broken_after_their_separators_only() -> None:
    """In narrow columns, keys were broken in the middle of words."""
    async with open_console() as place:
        page = await place.page("tools", q="add")
        assert "notes:<wbr>add</bdi>" in page


async def test_an_error_page_has_a_short_title() -> None:
    """All tools of the server were in the title."""
    async with open_console() as place:
        page = (await place.client.get("/console/override?key=notes:nothing")).text
        title = re.search(r"<h1>(.*?)</h1>", page)
        assert title is not None
        assert visible_text(title[1]) == "Server 'notes' lists no tool 'nothing'."
        assert "It lists: " in visible_text(page)


async def test_wrong_arguments_are_named_at_their_fields() -> None:
    """The error stood at the top of the page only."""
    async with open_console() as place:
        page = (await place.send("tool?key=notes:add", 400, key="notes:add")).text
        wrong = re.findall(r'<p class="wrong" id="(a\d)-wrong"><bdi>([^<]*)', page)
        assert wrong == [("a0", "&#39;text&#39; is missing.")]
        assert re.search(r'name="a0" [^>]*aria-invalid="true"', page)


async def test_json_that_cannot_be_read_is_marked_at_its_field() -> None:
    async with open_console() as place:
        page = (await place.send("servers/check", 400, kind="json", text='{"a": ', do="test")).text
        assert re.search(r'id="text"[^>]* aria-invalid="true"', page)
        assert 'id="text-wrong"' in page


async def test_a_pack_that_waits_for_a_database_says_so() -> None:
    """It was shown as enabled, while none of its intents was detected."""
    async with open_console() as place:
        packs = visible_text(await place.page("packs"))
        assert "schema 1 enabled, no database connected" in packs
        assert "This pack does nothing yet" in visible_text(await place.page("pack", name="schema"))
        page = visible_text(await place.page("intents", message="what changed in the schema?"))
        assert "schema was not considered, because no database is connected" in page


def test_tables_become_cards_on_a_phone() -> None:
    """The tables of documents and collections were cut off there."""
    templates = Path(toolgate.console.__file__).with_name("templates")
    without = {
        path.name
        for path in templates.glob("*.html")
        if re.search(r'<table(?! class="cards)', path.read_text(encoding="utf-8"))
    }
    # On Home they have four narrow columns; compared settings are read across the columns.
    assert without == {"home.html", "answers.html"}


async def test_the_first_change_of_a_setting_creates_the_file(tmp_path: Path) -> None:
    """The console only said how to create one by hand, and to start the gateway again."""
    settings = load(environ={"XDG_CONFIG_HOME": str(tmp_path)}, cwd=tmp_path)
    file = tmp_path / "toolgate" / "toolgate.toml"
    async with open_console(settings=settings) as place:
        first = visible_text(await place.page("settings"))
        assert f"The first change creates {file} . You see the difference" in first
        changed: dict[str, Any] = {"name": "mode", "value": '"all"'}
        shown = (await place.send("setting", 200, **changed, do="check")).text
        assert 'is: + version = 1 is: + mode = "all"' in visible_text(shown)
        assert not file.exists()
        state = re.findall(r'name="state" value="([0-9a-f]+)"', shown)
        await place.send("setting", **changed, do="save", state=state)
        assert file.read_text("utf-8") == 'version = 1\nmode = "all"\n'
        then = visible_text(await place.page("settings"))
        assert f"Changes are written to {file} . You see the difference" in then


async def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    settings = load(environ={"XDG_CONFIG_HOME": str(tmp_path)}, cwd=tmp_path)
    file = tmp_path / "toolgate" / "toolgate.toml"
    async with open_console(settings=settings) as place:
        changed: dict[str, Any] = {"name": "mode", "value": '"all"'}
        shown = (await place.send("setting", 200, **changed, do="check")).text
        file.write_text("version = 1\n", encoding="utf-8")
        state = re.findall(r'name="state" value="([0-9a-f]+)"', shown)
        refused = await place.send("setting", 400, **changed, do="save", state=state)
        assert "was changed in the meantime" in visible_text(refused.text)
        assert file.read_text("utf-8") == "version = 1\n"


async def test_settings_that_a_program_makes_are_only_shown() -> None:
    async with open_console() as place:
        advice = "The program that started this gateway makes its settings; change them there."
        assert advice in visible_text(await place.page("settings"))
        assert advice in visible_text(await place.page("setting", name="mode"))
        refused = await place.send("packs", 400, name="documents", do="enable")
        assert "The settings of this gateway are not in a file." in visible_text(refused.text)


async def test_commands_in_messages_are_shown_as_code() -> None:
    """Pages of errors showed the backticks around them."""
    async with open_console() as place:
        page = await place.page("setting", 400, name="`no` \u202esuch <b>")
        assert "There is no setting" in visible_text(page)
        assert "<code>no</code>" in page
        assert "\u202e" not in page
        assert "<b>&#39" not in page


async def test_choices_and_lists_of_a_form_are_sent_as_the_schema_says() -> None:
    schema: Json = {
        "type": "object",
        "properties": {
            "level": {"enum": [5, "5", "high"]},
            "words": {"type": "array", "items": {"type": "string"}},
        },
    }
    received: list[Any] = []

    def note(arguments: Json) -> Json:
        received.append(arguments["arguments"])
        return text_result("done")

    upstream = FakeUpstream({"set": note}, definitions={"set": {"inputSchema": schema}})
    async with open_console({"levels": upstream}) as place:
        for level, words in (
            ("5", "[1]"),
            ('"5"', '["a", "b"]'),
            ("high", "one\ntwo"),
            ('"high"', '["a", 2]'),
        ):
            await place.send("tool", 200, key="levels:set", a0=level, a1=words)
        refused = await place.send("tool", 400, key="levels:set", a0="7")
        assert "level cannot be '7'." in visible_text(refused.text)
    assert received == [
        {"level": 5, "words": ["[1]"]},
        {"level": "5", "words": ["a", "b"]},
        {"level": "high", "words": ["one", "two"]},
        {"level": "high", "words": ['["a", 2]']},
    ]
    assert isinstance(received[0]["level"], int)
