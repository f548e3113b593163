"""What a chat model is asked around a search: rows VS and FB of source document 002's contract."""

from dataclasses import dataclass

import pytest

from tests.documents.libraries import Asked, rendered, shipped
from toolgate.documents import ConversationMessage, grade, rephrase, select

QUESTION = "How do I reset it?"
TALK = (
    ConversationMessage(role="user", text="What is a VPN token?"),
    ConversationMessage(role="assistant", text="A code from IT."),
    ConversationMessage(role="user", text=QUESTION),
)


@dataclass(frozen=True)
class Table:
    name: str
    alias: str = ""
    description: str = ""
    model: str = "bundled"


A, B, C, D = Table("GUIDES", "Guides"), Table("HR"), Table("LAW"), Table("OLD")


# Rephrasing


@pytest.mark.parametrize(
    ("entries", "is_asked"), [(0, False), (1, False), (2, False), (3, True), (5, True)]
)
async def test_vs_3_a_question_is_rephrased_with_more_than_two_entries(
    entries: int, is_asked: bool
) -> None:
    """Two entries are a first turn, whose empty call of a tool counts."""
    ask = Asked(rephrase="How do I reset a VPN token?")
    history = (ConversationMessage(role="assistant", text=""),) * max(0, entries - 1)
    history = (
        (*history, ConversationMessage(role="user", text=QUESTION))[-entries:] if entries else ()
    )
    made = await rephrase(QUESTION, history, ask=ask, render=rendered)
    assert bool(ask.prompts) is is_asked
    assert made.was_rephrased is is_asked


async def test_vs_3_nothing_is_rephrased_when_it_is_switched_off() -> None:
    ask = Asked(rephrase="x")
    made = await rephrase(QUESTION, TALK, ask=ask, render=rendered, is_enabled=False)
    assert (made.query, ask.prompts) == (QUESTION, [])


async def test_vs_4_the_same_text_is_no_rephrasing() -> None:
    made = await rephrase(QUESTION, TALK, ask=Asked(rephrase=f' "{QUESTION}" '), render=rendered)
    assert (made.status, made.query, made.was_rephrased) == ("success", QUESTION, False)


async def test_the_prompt_has_the_conversation_before_the_question() -> None:
    ask = Asked(rephrase="How do I reset a VPN token?")
    made = await rephrase(QUESTION, TALK, ask=ask, render=shipped)
    [(_, prompt)] = ask.prompts
    assert "user: What is a VPN token?\nassistant: A code from IT." in prompt
    assert prompt.count(QUESTION) == 1
    assert made.query == "How do I reset a VPN token?"


async def test_fb_1_a_model_that_fails_leaves_the_question() -> None:
    ask = Asked(rephrase=RuntimeError("boom"))
    made = await rephrase(QUESTION, TALK, ask=ask, render=rendered)
    assert (made.status, made.query, made.error) == ("error", QUESTION, "boom")


@pytest.mark.parametrize(
    "answer",
    ["", "  \n ", "Two\nlines", "x" * 600],
    ids=["empty", "blank", "several lines", "too long"],
)
async def test_vs_6_what_is_no_single_short_line_leaves_the_question(answer: str) -> None:
    ask = Asked(rephrase=answer)
    made = await rephrase(QUESTION, TALK, ask=ask, render=rendered)
    assert (made.status, made.query, made.was_rephrased) == ("error", QUESTION, False)
    assert ask.limits == [128]


async def test_vs_5_a_lost_connection_is_named() -> None:
    ask = Asked(rephrase=ConnectionError("refused"))
    made = await rephrase(QUESTION, TALK, ask=ask, render=rendered)
    assert made.error == "API connection failed: refused"
    assert made.query == QUESTION


async def test_fb_1_a_missing_prompt_leaves_the_question() -> None:
    async def missing(name: str, values: object, /) -> str:
        raise KeyError(name)

    made = await rephrase(QUESTION, TALK, ask=Asked(rephrase="x"), render=missing)
    assert made.query == QUESTION


# Choosing collections


async def test_mt_2_a_single_collection_is_taken_without_a_model() -> None:
    ask = Asked()
    selected = await select(QUESTION, [A], limit=3, ask=ask, render=rendered)
    assert (selected.names, selected.selection) == (("GUIDES",), "")
    assert ask.prompts == []


async def test_mt_2_the_model_sees_name_alias_description_and_model() -> None:
    ask = Asked(select='["HR"]')
    tables = [Table("GUIDES", "Guides", "How to\ndo it", "m1"), B]
    selected = await select(QUESTION, tables, limit=3, ask=ask, render=rendered)
    assert (selected.names, selected.selection) == (("HR",), "model")
    [(_, prompt)] = ask.prompts
    assert "- GUIDES (alias: Guides): How to do it [model: m1]" in prompt
    assert "- HR: no description [model: bundled]" in prompt


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ('["LAW", "HR"]', ["LAW", "HR"]),
        ('Sure:\n```json\n["HR"]\n```', ["HR"]),
        ('["law", "guides", "LAW"]', ["LAW", "GUIDES"]),
        ('["nope", "HR", 7]', ["HR"]),
        ('I think ["HR"] fits, and ["LAW"] does not.', ["HR"]),
        ('Of [these], the best is ["HR"', []),
        ('The tables [GUIDES, HR]: ["LAW"]', ["LAW"]),
        ('[1] has the prices, so: ["HR"]', ["HR"]),
        ("[1, 2]", []),
        ('["nope"]', []),
        ("[]", []),
        ("HR", []),
        ('{"HR": 1}', []),
        (RuntimeError("boom"), []),
    ],
)
async def test_fb_3_the_first_array_of_names_counts_and_without_one_all_are_searched(
    answer: str | Exception, wanted: list[str]
) -> None:
    selected = await select(QUESTION, [A, B, C], limit=2, ask=Asked(select=answer), render=rendered)
    assert list(selected.names) == (wanted or ["GUIDES", "HR", "LAW"])
    assert selected.selection == ("model" if wanted else "all")
    assert bool(selected.error) is not bool(wanted)


async def test_fb_4_of_more_names_than_allowed_the_first_count() -> None:
    ask = Asked(select='["OLD", "LAW", "HR", "GUIDES"]')
    selected = await select(QUESTION, [A, B, C, D], limit=3, ask=ask, render=rendered)
    assert selected.names == ("OLD", "LAW", "HR")


async def test_without_a_model_all_collections_are_searched() -> None:
    selected = await select(QUESTION, [A, B], limit=1, ask=None, render=rendered)
    assert (selected.names, selected.selection) == (("GUIDES", "HR"), "")


# Grading


@pytest.mark.parametrize(
    ("answer", "relevant"),
    [
        ("yes", "yes"),
        ("Yes.", "yes"),
        ("no", "no"),
        ("NO, they do not", "no"),
        ("no, wait: yes", "yes"),
        ("perhaps", "yes"),
        ("", "yes"),
    ],
)
async def test_vs_9_the_answer_is_looked_at_for_yes_and_then_for_no(
    answer: str, relevant: str
) -> None:
    ask = Asked(grade=answer)
    made = await grade(QUESTION, ["one", "two"], ask=ask, render=rendered)
    assert (made.relevant, made.grading_performed) == (relevant, True)
    documents = "[1]\none\n\n[2]\ntwo"
    assert ask.prompts == [("grade", f"vs-grade\nquestion={QUESTION}\ndocuments={documents}")]


@pytest.mark.parametrize(
    ("answer", "helpful"),
    [
        ("2", (1,)),
        ("1, 3", (0, 2)),
        ("[3] and [1].", (0, 2)),
        ("Documents 1 and 2 help; 9 does not exist.", (0, 1)),
        ("7", ()),
        ("yes", ()),
        ("No. Document 2 is about version 2.5.", ()),
    ],
)
async def test_passages_are_graded_one_by_one_in_one_request(
    answer: str, helpful: tuple[int, ...]
) -> None:
    ask = Asked(grade=answer)
    made = await grade(QUESTION, ["one", "two", "three"], ask=ask, render=rendered)
    assert made.helpful == helpful
    assert made.relevant == ("no" if answer.startswith("No") else "yes")
    assert len(ask.prompts) == 1


@pytest.mark.parametrize(
    ("documents", "is_enabled", "has_model"),
    [([], True, True), (["one"], False, True), (["one"], True, False)],
)
async def test_vs_10_nothing_is_graded_without_documents_or_when_it_is_off(
    documents: list[str], is_enabled: bool, has_model: bool
) -> None:
    ask = Asked(grade="no")
    made = await grade(
        QUESTION,
        documents,
        ask=ask if has_model else None,
        render=rendered,
        is_enabled=is_enabled,
    )
    assert (made.relevant, made.grading_performed, ask.prompts) == ("yes", False, [])


@pytest.mark.parametrize("failure", [RuntimeError("boom"), ConnectionError("gone")])
async def test_fb_7_documents_are_kept_when_grading_fails(failure: Exception) -> None:
    made = await grade(QUESTION, ["one"], ask=Asked(grade=failure), render=rendered)
    assert (made.status, made.relevant, made.grading_performed) == ("error", "yes", False)


async def test_a_model_that_hangs_is_left_after_its_time() -> None:
    import anyio

    async def hang(prompt: str, **_: object) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    made = await grade(QUESTION, ["one"], ask=hang, render=rendered, timeout_s=0.01)
    assert (made.status, made.relevant) == ("error", "yes")
