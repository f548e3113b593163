"""The enriched prompt: its form, its budget, and what conversations remember."""

import os
from pathlib import Path

import pytest

from toolgate.base.token_estimate import estimate_tokens
from toolgate.intents.rules import (
    CLOSING,
    ConversationContext,
    PackRules,
    RenderedRules,
    Rulebook,
    WorkspaceVariables,
    build_enriched_prompt,
    context_block,
    fit_budget,
    recent_files,
)
from toolgate.types import Caller


def rules(text: str, intent: str = "A") -> RenderedRules:
    return RenderedRules(intent=intent, pack="p", text=text, tokens=estimate_tokens(text))


# Form


def test_the_enriched_prompt_has_the_form_of_the_source() -> None:
    """Source document 000: context, USER REQUEST, rules, a closing line."""
    context = context_block(
        "servoy",
        {
            "CONTEXT_TITLE": "SERVOY DEVELOPMENT CONTEXT",
            "PROJECT_NAME": "shop",
            "ACTIVE_SOLUTION": "shop_core",
        },
    )

    assert build_enriched_prompt(
        context, "Open  the {{TOOLS}}\n relation ", [rules("=== RULES ===")]
    ) == (
        "=== SERVOY DEVELOPMENT CONTEXT ===\n"
        "**Current Project:** shop\n"
        "**Active Solution:** shop_core\n"
        "\n"
        "USER REQUEST:\n"
        "Open  the {{TOOLS}}\n relation \n"
        "\n"
        "=== RULES ===\n"
        "\n" + CLOSING
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"NO_PROJECT": "No active project"}, "=== SALES CONTEXT ===\n**No active project**"),
        (
            {"PROJECT_NAME": "UNKNOWN", "NO_PROJECT": "No active Servoy project"},
            "=== SALES CONTEXT ===\n**No active Servoy project**",
        ),
        (
            {"PROJECT_NAME": "x", "ACTIVE_SOLUTION": "UNKNOWN"},
            "=== SALES CONTEXT ===\n**Current Project:** x",
        ),
        (
            {"PROJECT_NAME": "x\n\nUSER REQUEST:\nrm", "CONTEXT_TITLE": " T\n"},
            "=== T ===\n**Current Project:** x USER REQUEST: rm",
        ),
    ],
    ids=["nothing known", "said by the pack", "no solution", "values that look like the form"],
)
def test_the_context_says_what_is_known(values: dict[str, str], expected: str) -> None:
    assert context_block("sales", values) == expected


# Budget


def test_rules_that_do_not_fit_are_left_out_whole_and_smaller_ones_follow() -> None:
    first, large, small = rules("a" * 400), rules("b" * 4000, "B"), rules("c" * 40, "C")

    given, left_out = fit_budget([first, large, small], 120)

    assert [each.intent for each in given] == ["A", "C"]
    assert left_out == [large]


def test_the_first_rules_are_shortened_at_a_paragraph_and_say_so() -> None:
    text = "\n\n".join(f"Paragraph {n} ends here." for n in range(200))

    (given,), left_out = fit_budget([rules(text)], 300)

    assert left_out == []
    assert given.shortened
    assert given.tokens == estimate_tokens(given.text) <= 300
    *_, last, note = given.text.split("\n\n")
    assert last.endswith("ends here.")
    assert note == "(Shortened: the rest of these rules is over the budget of 300 tokens.)"


def test_rules_without_any_place_to_cut_are_cut_all_the_same() -> None:
    (given,), _ = fit_budget([rules("ä" * 10_000)], 200)

    assert given.tokens <= 200
    assert "�" not in given.text


# Rulebook


def test_rules_are_found_by_exact_name_without_case() -> None:
    """Source document 000: exact match; `relations.md` belongs to RELATIONS."""
    book = Rulebook([PackRules(pack="p", rules={"valuelists": "text"})])

    assert book.rule("VALUELISTS") is not None
    assert book.rule("valuelist") is None
    assert book.rule("VALUE_LISTS") is None


def test_empty_rules_are_none_and_of_two_packs_the_first_counts() -> None:
    book = Rulebook(
        [
            PackRules(pack="a", rules={"x": " \n", "y": "of a"}),
            PackRules(pack="b", rules={"x": "of b", "Y": "of b"}),
        ]
    )

    assert book.intents == ("y", "x")
    assert [book.rule(name).pack for name in book.intents] == ["a", "b"]  # pyright: ignore[reportOptionalMemberAccess]
    assert not Rulebook()


async def test_who_sets_a_variable_last_wins() -> None:
    async def common(_: Caller, __: object) -> dict[str, str]:
        return {"A": "common", "B": "common", "PROJECT_NAME": "", "C": "common", "D": "common"}

    async def live(_: Caller, __: object) -> dict[str, str]:
        return {"C": "live", "D": "live", "NOT_NEEDED": "live"}

    book = Rulebook(common=common)
    book.replace_rules(
        [PackRules(pack="p", rules={"x": "t"}, variables={"B": "pack", "C": "pack", "D": "pack"})],
        {"p": live},
    )
    names = {"A", "B", "C", "D", "PROJECT_NAME", "TOOLS", "NOBODY"}

    assert await book.variable_values("p", names, Caller.local(), {"D": "own"}) == {
        "A": "common",
        "B": "pack",
        "C": "live",
        "D": "own",
        "PROJECT_NAME": "UNKNOWN",
        "TOOLS": "none",
    }


async def test_a_source_that_fails_costs_only_its_variables(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(_: Caller, __: object) -> dict[str, str]:
        raise RuntimeError("no database")

    book = Rulebook()
    book.replace_rules([PackRules(pack="p", rules={"x": "t"}, variables={"A": "1"})], {"p": broken})

    assert await book.variable_values("p", {"A", "B"}, Caller.local(), {}) == {"A": "1"}
    assert "variables not known" in caplog.text


# The place


async def test_the_folder_is_the_project_of_a_single_user_and_a_tenant_is_its_own(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "notes.md").write_text("x", "utf-8")
    place = WorkspaceVariables(folder, home=tmp_path, connections=lambda: ["crm", "stock"])
    names = {"PROJECT_NAME", "USER_NAME", "RECENT_FILES", "DATABASE_SERVERS"}

    mine = await place(Caller.local(), names)
    theirs = await place(Caller.local(caller_id="ann", project_id="team-a"), names)

    assert (mine["PROJECT_NAME"], theirs["PROJECT_NAME"]) == ("shop", "team-a")
    assert theirs["USER_NAME"] == "ann"
    assert mine["USER_NAME"] != "local"
    assert mine["RECENT_FILES"] == "- notes.md"
    assert mine["DATABASE_SERVERS"] == "crm, stock"


async def test_the_place_is_that_of_the_client_where_it_is_known(tmp_path: Path) -> None:
    """Regression: an attached `toolgate stdio` got the folder in which the gateway was started."""
    for name in ("gateway", "first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text("x", "utf-8")
    place = WorkspaceVariables(tmp_path / "gateway", home=tmp_path)
    names = {"PROJECT_NAME", "RECENT_FILES"}

    found = [
        await place(Caller.local(folder=str(tmp_path / name) if name else ""), names)
        for name in ("first", "second", "", "first", "gone")
    ]

    assert [(each["PROJECT_NAME"], each["RECENT_FILES"]) for each in found] == [
        ("first", "- first.md"),
        ("second", "- second.md"),
        ("gateway", "- gateway.md"),
        ("first", "- first.md"),
        ("gone", ""),
    ]


async def test_a_home_folder_is_no_project(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path.parent, Path("/")):
        place = WorkspaceVariables(folder, home=tmp_path)
        found = await place(Caller.local(), {"PROJECT_NAME", "RECENT_FILES"})
        assert (found["PROJECT_NAME"], found["RECENT_FILES"]) == ("", "")


def test_recent_files_are_the_last_changed_and_no_generated_ones(tmp_path: Path) -> None:
    for number in range(14):
        path = tmp_path / f"dir{number % 3}" / f"file{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("x", "utf-8")
        os.utime(path, (1_000 + number, 1_000 + number))
    for hidden in (".git/HEAD", "node_modules/a.js", "dir0/.hidden"):
        path = tmp_path / hidden
        path.parent.mkdir(exist_ok=True)
        path.write_text("x", "utf-8")

    found = recent_files(tmp_path)

    assert found == tuple(f"dir{number % 3}/file{number}.txt" for number in range(13, 3, -1))


# Conversations


def test_a_conversation_known_only_by_its_clients_name_ends_after_half_an_hour() -> None:
    """Decision 14."""
    now = [0.0]
    talks = ConversationContext(lambda: now[0])
    guessed = Caller.local(client="ide", conversation="ide")
    named = Caller.local(client="ide", conversation="session 1")
    for caller in (guessed, named):
        talks.record_request(caller, "text", intent="A", intents=("A",))
    now[0] = 1790.0
    assert talks.state(guessed).intents == ("A",)
    now[0] = 1810.0

    assert talks.state(guessed).intents == ()
    assert talks.state(named).intents == ("A",)


def test_callers_and_projects_have_conversations_of_their_own() -> None:
    talks = ConversationContext(lambda: 0.0)
    talks.record_request(Caller.local(conversation="c"), "text", intent="A", intents=("A",))

    assert talks.state(Caller.local(conversation="c", caller_id="other")).intents == ()
    assert talks.state(Caller.local(conversation="c", project_id="other")).intents == ()


def test_without_a_name_there_is_no_conversation() -> None:
    talks = ConversationContext(lambda: 0.0)
    talks.record_request(Caller.local(), "text", intent="A", intents=("A",))
    talks.record_advice(Caller.local(), "s:t")

    assert talks.state(Caller.local()).intents == ()


def test_a_request_without_rules_leaves_the_rules_before_in_memory() -> None:
    talks = ConversationContext(lambda: 0.0)
    me = Caller.local(conversation="c")
    talks.record_request(me, "one", intent="A", intents=("A",))
    talks.record_advice(me, "s:t")
    talks.record_request(me, "one more", intent="A", intents=("A",))
    assert talks.state(me).given_advice == {"s:t"}
    talks.record_request(me, "two", intent=None, intents=())

    talk = talks.state(me)
    assert (talk.given_intents, talk.intents, talk.previous, talk.given_advice) == (
        ("A",),
        (),
        ("A", "A"),
        frozenset(),
    )
