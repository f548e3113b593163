"""`processPrompt`, `getKnowledge`, and what an intent changes in finding and calling tools."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from toolgate.app.app import App
from toolgate.errors import ArgumentError
from toolgate.gateway.meta_tools import read_discover
from toolgate.intents import ArgumentSpec, Intent, IntentSet, Keywords
from toolgate.intents.rules import CALL_FIRST, CLOSING, PackRules
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.rest.api import RestApi
from toolgate.settings import AuditSettings, PackSettings, RuleSettings, Settings
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

ME = Caller.local(client="ide", conversation="talk")
META = Settings(
    mode="meta",
    rules=RuleSettings(variables={"PROJECT_NAME": "shop"}),
    packs=PackSettings(disable=("schema",)),  # or its prompts would be learned in each test
)

RELATIONS = (
    "create a relation between orders and customers",
    "make a relation from products to categories",
    "open the relation orders_to_customers",
    "delete the old relation",
    "show me all relations",
)
VALUELISTS = (
    "create a value list with Active and Inactive",
    "make a value list from the customers table",
    "open the value list order_status",
    "delete the value list countries",
    "show me all value lists",
)
RULES = (
    "=== RELATIONS OPERATIONS ===\n\n**Project** = {{PROJECT_NAME}} of {{COMPANY}}, {{NOBODY}}\n"
)
PACK = PackRules(
    pack="ide",
    rules={"relations": RULES, "valuelists": "Rules for value lists.\n{{TOOLS}}"},
    variables={"COMPANY": "ACME", "CONTEXT_TITLE": "IDE CONTEXT"},
)
INTENTS = (
    Intent(
        name="RELATIONS",
        tool="openRelation",
        tools=("openRelation", "deleteRelation", "noSuchTool"),
        prompts={"": RELATIONS},
        pack="ide",
    ),
    Intent(name="VALUELISTS", tools=("openValueList",), prompts={"": VALUELISTS}, pack="ide"),
    Intent(
        name="PLAIN",
        keywords={"en": Keywords(exact=("plain thing",))},
        pack="ide",
    ),
)
A_RELATION = "I need a relation between invoices and customers"
A_LIST = "now I want a value list with Red and Green"


def ide() -> FakeUpstream:
    named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return FakeUpstream(
        {
            "openRelation": lambda _: text_result("relation is open"),
            "deleteRelation": lambda _: text_result("relation is gone"),
            "openValueList": lambda _: text_result("list is open"),
            "listValueLists": lambda _: text_result("no lists"),
            "readFile": lambda _: text_result("file"),
        },
        definitions={
            "openRelation": {"description": "Opens a relation. And more.", "inputSchema": named},
            "openValueList": {"description": "Opens a value list.", "inputSchema": named},
            "listValueLists": {"annotations": {"readOnlyHint": True}},
        },
    )


@asynccontextmanager
async def app_with(
    settings: Settings = META, *packs: PackRules, intents: tuple[Intent, ...] = INTENTS
) -> AsyncGenerator[App]:
    async with memory_app({"ide": ide()}, settings) as app:
        app.recognizer.replace_intents(IntentSet(version="test", intents=intents))
        app.rulebook.replace_rules(packs or (PACK,))
        await app.recognizer.wait_until_trained()
        yield app


async def call(app: App, tool: str, caller: Caller = ME, **arguments: Any) -> Json:
    return await app.gateway.call(caller, {"name": tool, "arguments": arguments}, None)


async def asked(app: App, prompt: str, caller: Caller = ME) -> str:
    return text(await call(app, "processPrompt", caller, prompt=prompt))


def text(result: Json) -> str:
    return "\n".join(block["text"] for block in result["content"])


async def names(app: App) -> list[str]:
    return [tool["name"] for tool in orjson.loads(await app.gateway.listing.list_tools(ME))]


async def rest(app: App, body: object, path: str = "enrich", **headers: str) -> tuple[int, Any]:
    answer = bytearray()
    status = 0
    waiting = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Any:
        return waiting.pop()

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        answer.extend(message.get("body", b""))

    given = {"content-type": "application/json", "user-agent": "program", **headers}
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/api/v1/{path}",
        "query_string": b"",
        "headers": raw,
        HEADERS: dict(raw),
    }
    await RestApi(app)(scope, receive, send)
    return status, json.loads(answer)


# The text


async def test_a_prompt_is_answered_exactly_in_the_form_of_the_source() -> None:
    async with app_with() as app:
        assert await asked(app, A_RELATION) == (
            "=== IDE CONTEXT ===\n"
            "**Current Project:** shop\n"
            "\n"
            "USER REQUEST:\n"
            f"{A_RELATION}\n"
            "\n"
            "=== RELATIONS OPERATIONS ===\n"
            "\n"
            "**Project** = shop of ACME, {{NOBODY}}\n"
            "\n" + CLOSING
        )


async def test_beside_the_text_programs_get_how_sure_it_is() -> None:
    async with app_with() as app:
        found = (await call(app, "processPrompt", prompt=A_RELATION))["structuredContent"]

    assert list(found) == ["intent", "confidence", "stage", "runners_up", "question"]
    assert (found["intent"], found["stage"], found["question"]) == ("RELATIONS", "semantic", None)
    assert 0.5 < found["confidence"] <= 1
    assert found["runners_up"][0]["intent"] == "VALUELISTS"


async def test_what_has_no_rules_passes_through() -> None:
    """Source document 000: PASS_THROUGH is the whole answer, and no error."""
    async with app_with() as app:
        for prompt, intent in (
            ("What is the capital of France?", "none"),
            ("a plain thing", "PLAIN"),
            ("?!", "none"),
        ):
            answer = await call(app, "processPrompt", prompt=prompt)

            assert answer["content"] == [{"type": "text", "text": "PASS_THROUGH"}]
            assert answer["structuredContent"]["intent"] == intent
            assert "isError" not in answer


async def test_without_a_prompt_the_answer_says_so() -> None:
    """The source answers this text; an error is marked as one here."""
    async with app_with() as app:
        for arguments in ({}, {"prompt": ""}, {"prompt": " \n"}, {"prompt": None}):
            params = {"name": "processPrompt", "arguments": arguments}
            answer = await app.gateway.call(ME, params, None)

            assert text(answer) == "Error: prompt parameter is required"
            assert answer["isError"] is True


MISFITS: tuple[tuple[str, Json, str], ...] = (
    ("processPrompt", {"prompt": 7}, "'prompt' does not fit: 7 came"),
    ("processPrompt", {"promt": "x"}, "Did you mean 'prompt'"),
    ("getKnowledge", {"queries": []}, "Error: queries parameter is required"),
    ("getKnowledge", {"queries": [" "]}, "Error: queries parameter is required"),
    ("getKnowledge", {"queries": [1]}, "'queries' does not fit"),
    ("getKnowledge", {"queries": [str(n) for n in range(30)]}, "1 to 20"),
)


async def test_arguments_that_do_not_fit_are_named() -> None:
    async with app_with() as app:
        for tool, arguments, message in MISFITS:
            answer = await call(app, tool, **arguments)

            assert message in text(answer)
            assert answer["isError"] is True


async def test_a_prompt_of_five_megabytes_is_answered_whole_and_at_once() -> None:
    huge = f"{A_RELATION}\n" * 106_000
    assert len(huge) > 5_000_000
    async with app_with() as app:
        answer = await asked(app, huge)

    assert f"USER REQUEST:\n{huge}\n\n=== RELATIONS" in answer


async def test_a_prompt_stands_in_the_answer_to_the_letter() -> None:
    prompt = f"{A_RELATION} {{{{COMPANY}}}} \ud800\u202e\r\n\n\tUSER REQUEST:\n  "
    async with app_with() as app:
        assert f"USER REQUEST:\n{prompt}\n\n" in await asked(app, prompt)


async def test_two_intents_in_one_message_get_the_rules_of_both() -> None:
    async with app_with() as app:
        answer = await asked(app, "create a relation and a value list")

    assert answer.count(CLOSING) == 1
    assert "=== RELATIONS OPERATIONS ===" in answer
    assert "Rules for value lists." in answer


async def test_rules_over_the_budget_are_named_with_their_size() -> None:
    large = replace(PACK, rules={name: f"{name}. " * 200 for name in PACK.rules})
    tight = replace(META, rules=RuleSettings(budget_tokens=700))
    async with app_with(tight, large) as app:
        made = await app.gateway.intents.enrich(ME, "create a relation and a value list")

    (given,), (left_out,) = made.rules, made.left_out
    assert given.tokens <= 700
    assert f"**Not shown:** the rules of {left_out.intent} ({left_out.tokens} tokens)" in made.text


async def test_tools_are_those_of_the_intent_that_are_there() -> None:
    async with app_with(META, replace(PACK, rules={"relations": "{{TOOLS}}"})) as app:
        answer = await asked(app, A_RELATION)

    assert "\n\n- ide:openRelation(name): Opens a relation.\n- ide:deleteRelation()" in answer
    assert "noSuchTool" not in answer


async def test_tools_that_the_caller_may_not_use_are_named_nowhere() -> None:
    hidden = {"deleteRelation": False}
    async with memory_app({"ide": ide()}, META, tool_permissions=hidden) as app:
        app.recognizer.replace_intents(IntentSet(version="1", intents=INTENTS))
        app.rulebook.replace_rules([replace(PACK, rules={"relations": "{{TOOLS}}"})])
        answer = await asked(app, A_RELATION)
        found = await app.gateway.discovery.discover(
            ME, read_discover({"query": "delete the old relation"})
        )
        advice = text(await run(app, "ide:readFile"))

    assert "- ide:openRelation(name)" in answer
    assert "deleteRelation" not in answer + found.text + advice


async def test_tools_of_other_servers_are_meant_by_key_by_listed_name_or_by_bare_name() -> None:
    named = ("other:openRelation", "other__deleteRelation", "readFile")
    intent = replace(INTENTS[0], tools=named, tool="")
    async with memory_app({"other": ide()}, META) as app:
        app.recognizer.replace_intents(IntentSet(version="1", intents=(intent,)))
        app.rulebook.replace_rules([replace(PACK, rules={"relations": "{{TOOLS}}"})])
        answer = await asked(app, A_RELATION)

    assert "- other:openRelation(name): Opens a relation.\n- other:deleteRelation()" in answer
    assert "- other:readFile()" in answer


async def test_tools_have_the_names_that_are_listed() -> None:
    settings = replace(META, mode="all")
    async with app_with(settings, replace(PACK, rules={"relations": "{{TOOLS}}"})) as app:
        assert "- ide__openRelation(name): Opens a relation." in await asked(app, A_RELATION)


ENDINGS = (
    ("Rules.", "Rules.\n\nIf the user's message has nothing to do with this, call no tool"),
    ("Say {{OUT_OF_CONTEXT}}", "Say I help with the IDE.\n\n" + CLOSING),
    ("Say I help with the IDE.", "Say I help with the IDE.\n\n" + CLOSING),
)


async def test_the_answer_to_other_messages_follows_rules_that_do_not_say_it() -> None:
    async with app_with() as app:
        for rules, ending in ENDINGS:
            said = "I help with the IDE.\n"
            app.rulebook.replace_rules(
                [replace(PACK, rules={"relations": rules}, out_of_context=said)]
            )
            answer = await asked(app, A_RELATION)

            assert ending in answer
            assert answer.count("I help with the IDE.") == 1


async def test_a_setting_adds_one_line_about_the_detection() -> None:
    shown = replace(META, rules=replace(META.rules, show_detection=True))
    async with app_with(shown) as app:
        answer = await asked(app, A_RELATION)

    (line,) = [line for line in answer.splitlines() if line.startswith("**Detected:**")]
    assert "RELATIONS" in line
    assert "(semantic); then VALUELISTS 0." in line
    assert answer.index(line) < answer.index("USER REQUEST")


async def test_the_question_to_ask_back_is_in_the_text_for_the_model() -> None:
    twins = tuple(
        Intent(name=name, prompts={"": (*RELATIONS[:3], f"{name} please")}, pack=pack)
        for name, pack in (("RELATIONS", "ide"), ("VALUELISTS", "other"))
    )
    async with app_with(intents=twins) as app:
        answer = await asked(app, "make a relation from orders to customers")

    (line,) = [line for line in answer.splitlines() if line.startswith("**Unclear:**")]
    assert line.startswith("**Unclear:** ask the user: Is this about ")
    assert "valuelists" in line
    assert answer.index(line) < answer.index("USER REQUEST")


async def test_without_a_project_the_context_says_so() -> None:
    pack = replace(PACK, variables={"NO_PROJECT": "No active IDE project"})
    none = replace(META, rules=RuleSettings(variables={"PROJECT_NAME": "UNKNOWN"}))
    async with app_with(none, pack) as app:
        assert (await asked(app, A_RELATION)).startswith(
            "=== IDE CONTEXT ===\n**No active IDE project**\n\nUSER REQUEST:\n"
        )


# Conversations


async def test_the_rules_before_are_named_as_no_longer_valid() -> None:
    async with app_with() as app:
        first = await asked(app, A_RELATION)
        again = await asked(app, "show me all relations")
        assert await asked(app, "What is the weather today?") == "PASS_THROUGH"
        switched = await asked(app, A_LIST)
        other = await asked(app, A_LIST, replace(ME, conversation="another"))

    gone = "**Topic changed:** the rules of RELATIONS that were given earlier are no longer valid"
    assert "no longer valid" not in first + again + other
    assert gone in switched.partition("USER REQUEST")[0]


async def test_rules_are_given_once_in_a_conversation_until_they_change() -> None:
    async with app_with() as app:
        await asked(app, A_RELATION)
        second = await asked(app, A_RELATION)
        knowledge = text(await call(app, "getKnowledge", queries=["create a relation"]))
        unknown = Caller.local(client="ide")
        guessed = [await asked(app, A_RELATION, unknown) for _ in range(2)]
        app.rulebook.replace_rules([replace(PACK, rules={"relations": "=== NEW RULES ==="})])
        changed = await asked(app, A_RELATION)

    assert "RELATIONS OPERATIONS" not in second
    assert "those of RELATIONS that were given earlier in this conversation still apply" in second
    assert A_RELATION in second
    assert second.endswith(CLOSING)
    assert "RELATIONS OPERATIONS" in knowledge
    assert all("RELATIONS OPERATIONS" in answer for answer in guessed)
    assert "=== NEW RULES ===" in changed


async def test_a_period_that_was_not_understood_is_told_to_the_model() -> None:
    since = ArgumentSpec(name="since", kind="date")
    intents = tuple(replace(intent, arguments=(since,)) for intent in INTENTS)
    async with app_with(intents=intents) as app:
        answer = await call(
            app, "processPrompt", prompt="show me all relations since the last release"
        )
        clear = await asked(app, "show me all relations since yesterday")

    context = text(answer).partition("USER REQUEST")[0]
    assert '**Not understood:** "since the last release" was not read as a date' in context
    assert "Not understood" not in clear


async def test_the_same_again_has_the_intent_of_the_message_before() -> None:
    async with app_with() as app:
        await asked(app, A_RELATION)

        again = "now do the same for clouds"
        assert "those of RELATIONS that were given earlier" in await asked(app, again)
        assert await asked(app, again, replace(ME, conversation="")) == "PASS_THROUGH"


# Knowledge


async def test_knowledge_gives_the_rules_of_each_intent_once_with_its_confidence() -> None:
    async with app_with() as app:
        answer = await call(
            app, "getKnowledge", queries=["create relation", "delete relation", "fly to the moon"]
        )
    said = text(answer)

    assert said.startswith("=== IDE CONTEXT ===\n**Current Project:** shop\n\n=== RELATIONS (conf")
    assert 'for "create relation", "delete relation") ===\n=== RELATIONS OPERATIONS' in said
    assert said.count("RELATIONS OPERATIONS") == 1
    assert 'There are no rules for "fly to the moon".' in said
    assert said.endswith(CLOSING)
    found = answer["structuredContent"]["found"]
    assert [each["query"] for each in found] == ["create relation", "delete relation"]
    assert {each["intent"] for each in found} == {"RELATIONS"}


async def test_knowledge_of_nothing_names_the_topics_and_the_packs_own_answer() -> None:
    pack = replace(PACK, out_of_context="I help with the IDE.")
    async with app_with(META, pack) as app:
        said = text(await call(app, "getKnowledge", queries=["fly to the moon"]))

    assert said == (
        'There are no rules for "fly to the moon". Topics with rules: RELATIONS, VALUELISTS.\n'
        "I help with the IDE."
    )


# What is listed


@pytest.mark.parametrize("mode", ["auto", "meta", "all"])
async def test_both_are_listed_first_in_every_mode_while_there_are_rules(mode: Any) -> None:
    async with app_with(replace(META, mode=mode)) as app:
        with_rules = await names(app)
        told = app.gateway.listing.instructions(ME)
        heard: list[object] = []
        app.gateway.changes.on_change(heard.append)
        app.rulebook.replace_rules([])
        app.gateway.changes.packs_changed()
        without = await names(app)

        assert with_rules == ["processPrompt", "getKnowledge", *without]
        assert CALL_FIRST in told
        assert "processPrompt" not in app.gateway.listing.instructions(ME)
        assert [change.kind for change in heard] == ["tools"]  # pyright: ignore[reportAttributeAccessIssue]
        assert await asked(app, A_RELATION) == "PASS_THROUGH"


async def test_the_setting_meta_tools_can_leave_them_out() -> None:
    two = replace(META, meta_tools=("tool_discovery", "tool_execute"))
    async with app_with(two) as app:
        assert await names(app) == ["tool_discovery", "tool_execute"]
        assert "processPrompt" not in app.gateway.listing.instructions(ME)


async def test_the_description_says_to_call_it_first_for_every_request() -> None:
    async with app_with() as app:
        first = orjson.loads(await app.gateway.listing.list_tools(ME))[0]

    assert "Call this first, for every request of the user" in first["description"]
    assert first["inputSchema"]["required"] == ["prompt"]


# Finding


async def test_an_intent_raises_its_tools_in_a_search_and_the_answer_says_so() -> None:
    async with app_with() as app:
        _, found = await rest(app, {"query": "delete the old relation"}, "discover")
        by_key = {tool["toolKey"]: tool for tool in found["results"]}

        assert "belongs to the intent RELATIONS" in by_key["ide:openRelation"]["explanation"]
        assert "belongs to the intent RELATIONS" in by_key["ide:deleteRelation"]["explanation"]
        assert "intent" not in by_key.get("ide:openValueList", {}).get("explanation", "")


async def test_a_tool_that_no_word_finds_is_found_by_its_intent() -> None:
    """What a pack knows of its tools counts, whatever they are called."""
    money = Intent(
        name="REFUNDS",
        tools=("readFile",),
        prompts={"": ("give me my money back", "pay me back", "I want to be reimbursed")},
        pack="ide",
    )
    async with app_with(intents=(*INTENTS, money)) as app:
        asked_for = {"query": "give me my money back now", "maxResults": 1}
        found = await app.gateway.discovery.discover(ME, read_discover(asked_for))
        within = await app.gateway.discovery.discover(
            ME, read_discover({**asked_for, "server": "ide"})
        )

    (best,) = found.results
    assert (best.tool_key, best.source, best.weak) == ("ide:readFile", "intent", False)
    assert best.explanation == "belongs to the intent REFUNDS"
    assert 0.5 < best.relevance < 0.7
    assert not [notice for notice in found.notices if "Nothing fits" in notice]
    assert within.results[0].tool_key == "ide:readFile"


async def test_an_intent_of_one_step_leaves_the_notices_about_the_others() -> None:
    """The step that nothing fits was told to have tools, because another one had an intent."""
    async with app_with() as app:
        steps = ["delete the old relation", "feed the cat"]
        found = await app.gateway.discovery.discover(ME, read_discover({"query": steps}))

    assert found.results[0].tool_key.startswith("ide:")
    assert found.results[0].relevance >= 0.5
    (notice,) = found.notices
    assert notice.startswith("'feed the cat': Nothing fits well")


async def test_an_intent_adds_no_tool_that_could_not_be_found() -> None:
    async with memory_app({"ide": ide(), "other": ide()}, META) as app:
        app.recognizer.replace_intents(IntentSet(version="1", intents=INTENTS))
        await app.recognizer.wait_until_trained()
        wanted = {"query": "create a relation", "server": "other", "maxResults": 8}
        found = await app.gateway.discovery.discover(ME, read_discover(wanted))
        above = await app.gateway.discovery.discover(
            ME, read_discover({"query": "create a relation", "threshold": 0.99})
        )

    assert {one.server_name for one in found.results} == {"other"}
    assert all("intent" not in one.explanation for one in found.results)
    assert all(one.relevance >= 0.99 for one in above.results)


async def test_the_intent_of_the_conversation_raises_tools_too() -> None:
    async with app_with() as app:
        await asked(app, A_LIST)
        answer = text(await call(app, "tool_discovery", query="open something"))

    best = answer.splitlines()[0]
    assert best.startswith("ide:openValueList")
    assert "belongs to the intent VALUELISTS" in answer


# Recovering


async def run(app: App, tool: str, caller: Caller = ME, **arguments: Any) -> Json:
    return await call(app, "tool_execute", caller, toolKey=tool, arguments=arguments)


async def test_a_call_of_another_intents_tool_is_answered_with_the_right_rules() -> None:
    async with app_with() as app:
        await asked(app, A_RELATION)
        first = await run(app, "ide:openValueList", name="x")
        again = await run(app, "ide:openValueList", name="x")

    assert first["isError"] is True
    said = text(first)
    assert said.startswith("ide:openValueList was not called: it belongs to VALUELISTS")
    assert "Tools of RELATIONS:\n- ide:openRelation(name)" in said
    assert "=== RELATIONS OPERATIONS ===" in said
    assert again == text_result("list is open")


async def test_a_tool_of_another_intent_that_only_reads_runs_all_the_same() -> None:
    lists = replace(INTENTS[1], tools=("openValueList", "listValueLists"))
    async with app_with(intents=(INTENTS[0], lists)) as app:
        await asked(app, A_RELATION)
        result = await run(app, "ide:listValueLists")

    assert "isError" not in result
    assert result["content"][0]["text"] == "no lists"
    said = result["content"][1]["text"]
    assert said.startswith(
        "ide:listValueLists belongs to VALUELISTS, and the last request is about"
    )
    assert "=== RELATIONS OPERATIONS ===" in said
    assert "make it again" not in said


async def test_a_tool_of_no_intent_runs_and_the_rules_follow_once() -> None:
    async with app_with() as app:
        await asked(app, A_RELATION)
        first = await call(app, "ide__readFile")
        await asked(app, "show me all relations")
        again = await call(app, "ide__readFile")

    assert first["content"][0] == {"type": "text", "text": "file"}
    assert "ide:readFile is none of the tools for RELATIONS" in first["content"][1]["text"]
    assert again == text_result("file")


async def test_a_tool_of_an_intent_that_may_be_meant_runs_with_its_rules() -> None:
    words = Keywords(partial=("open",), context=("thing",))
    either = tuple(replace(one, prompts={}, keywords={"en": words}) for one in INTENTS[:2])
    async with app_with(intents=either) as app:
        assert "RELATIONS OPERATIONS" in await asked(app, "open the thing")
        first = await run(app, "ide:openValueList", name="x")
        again = await run(app, "ide:openValueList", name="y")

    assert "isError" not in first
    assert first["content"][0]["text"] == "list is open"
    assert "ide:openValueList belongs to VALUELISTS; these are" in first["content"][1]["text"]
    assert "Rules for value lists." in first["content"][1]["text"]
    assert again == text_result("list is open")


async def test_tools_of_the_intent_run_as_ever_and_so_does_all_without_an_intent() -> None:
    async with app_with() as app:
        assert await run(app, "ide:openValueList", name="x") == text_result("list is open")
        await asked(app, A_RELATION)
        assert await run(app, "ide:openRelation", name="x") == text_result("relation is open")
        assert await run(app, "ide:openValueList", replace(ME, conversation=""), name="x") == (
            text_result("list is open")
        )
        await asked(app, "What is the capital of France?")
        assert await run(app, "ide:openValueList", name="x") == text_result("list is open")


async def test_arguments_that_do_not_fit_are_answered_with_the_rules_once() -> None:
    async with app_with() as app:
        await asked(app, A_RELATION)
        first = text(await run(app, "ide:openRelation", nam="x"))
        again = text(await run(app, "ide:openRelation", nam="x"))

    assert first.startswith("The arguments do not fit.")
    assert "=== RELATIONS OPERATIONS ===" in first
    assert again.startswith("The arguments do not fit.")
    assert "RELATIONS OPERATIONS" not in again


async def test_a_direct_call_that_the_server_refuses_for_its_arguments_is_too() -> None:
    """Direct calls are not checked before; what failed is compared with the schema after."""
    upstream = ide()
    upstream.tools["openRelation"] = lambda _: {**text_result("name is needed"), "isError": True}
    async with memory_app({"ide": upstream}, META) as app:
        app.recognizer.replace_intents(IntentSet(version="1", intents=INTENTS))
        app.rulebook.replace_rules([PACK])
        await asked(app, A_RELATION)
        failed = await call(app, "ide__openRelation")
        right = await call(app, "ide__openRelation", name="x")

    assert failed["content"][0]["text"] == "name is needed"
    assert "=== RELATIONS OPERATIONS ===" in failed["content"][1]["text"]
    assert len(right["content"]) == 1


async def test_what_was_misunderstood_stands_in_the_audit() -> None:
    async with app_with() as app:
        await asked(app, A_RELATION)
        await run(app, "ide:openValueList", name="x")
        await run(app, "ide:openRelation")
        await app.recorder.flush()
        records = await app.store.audit.select(AuditFilter(action="recover"))

    assert {record.detail["reason"]: record.detail["tool"] for record in records} == {
        "outside": "ide:openValueList",
        "arguments": "ide:openRelation",
    }


async def test_recovery_can_be_switched_off() -> None:
    off = replace(META, rules=replace(META.rules, recovery=False))
    async with app_with(off) as app:
        await asked(app, A_RELATION)

        assert await run(app, "ide:openValueList", name="x") == text_result("list is open")


# Audit, REST, Python


async def test_each_request_is_audited_with_its_intent_and_text_only_where_allowed() -> None:
    async with app_with() as app:
        await asked(app, A_RELATION)
        app.current_settings.replace(replace(META, audit=AuditSettings(keep_queries=False)))
        await asked(app, A_LIST)
        await call(app, "getKnowledge", queries=["create relation"])
        await app.recorder.flush()
        second, first = await app.store.audit.select(AuditFilter(action="enrich"))
        (known,) = await app.store.audit.select(AuditFilter(action="knowledge"))

    assert (first.query, second.query, known.query) == (A_RELATION, None, None)
    assert first.detail["intent"] == "RELATIONS"
    assert first.detail["rules"][0][0] == "RELATIONS"
    assert known.detail["rules"][0][0] == "RELATIONS"


async def test_rest_gives_the_same_text_with_all_about_it() -> None:
    async with app_with() as app:
        status, answer = await rest(app, {"prompt": A_RELATION})
        same = await asked(app, A_RELATION)

    assert status == 200
    assert answer["text"] == same
    assert answer["pass_through"] is False
    assert (answer["intent"], answer["tool"]) == ("RELATIONS", "openRelation")
    (rules,) = answer["rules"]
    assert (rules["intent"], rules["pack"]) == ("RELATIONS", "ide")
    assert rules["unknown_variables"] == ["NOBODY"]
    assert 0 < rules["tokens"] < answer["tokens"]


async def test_rest_takes_short_actions_too_and_refuses_what_does_not_fit() -> None:
    async with app_with() as app:
        status, known = await rest(app, {"queries": ["create relation"]})
        wrong = ({}, {"prompt": ""}, {"prompt": 1}, {"x": 1}, {"prompt": "x", "queries": ["y"]})
        refused = [await rest(app, body) for body in wrong]

    assert (status, known["found"][0]["intent"]) == (200, "RELATIONS")
    assert {code for code, _ in refused} == {400}
    assert [answer["error"]["message"] for _, answer in refused] == [
        "Error: prompt parameter is required",
        "Error: prompt parameter is required",
        "Member 'prompt' must be a string.",
        "Unknown member 'x'. Allowed: prompt, queries.",
        "A prompt and queries were both given.",
    ]


async def test_rest_knows_conversations_only_by_thread() -> None:
    """A program that serves many people has one name."""
    async with app_with() as app:
        thread = {"x-toolgate-thread": "one"}
        for headers in ({}, thread):
            await rest(app, {"prompt": A_RELATION}, **headers)
        _, alone = await rest(app, {"prompt": A_LIST})
        _, within = await rest(app, {"prompt": A_LIST}, **thread)
        status, _ = await rest(
            app, {"toolKey": "ide:openRelation", "arguments": {"name": "x"}}, "execute"
        )
        _, refused = await rest(
            app, {"toolKey": "ide:openValueList", "arguments": {}}, "execute", **thread
        )

    assert (alone["no_longer_valid"], within["no_longer_valid"]) == ([], ["RELATIONS"])
    assert status == 200
    assert "Rules for value lists." in refused["error"]["hint"]


async def test_python_gets_values() -> None:
    async with app_with() as app:
        made = await app.gateway.intents.enrich(ME, A_RELATION)
        with pytest.raises(ArgumentError):
            await app.gateway.calls.execute(ME, "ide:openRelation", {})

    assert made.detection.intent == "RELATIONS"
    assert made.rules[0].text.startswith("=== RELATIONS OPERATIONS ===")
    assert made.tokens > made.rules[0].tokens


async def test_recent_files_are_those_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "orders.rel").write_text("x", "utf-8")
    monkeypatch.chdir(folder)
    pack = replace(PACK, rules={"relations": "{{RECENT_FILES}}"})
    async with app_with(replace(META, rules=RuleSettings()), pack) as app:
        answer = await asked(app, A_RELATION)

    assert "**Current Project:** shop\n" in answer
    assert "\n- orders.rel\n" in answer
