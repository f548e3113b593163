"""The semantic stage: intents learned from example prompts."""

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import HANG_S
from toolgate.base.plugins import make
from toolgate.errors import EmbedderError, PackError
from toolgate.intents import (
    NONE,
    Detection,
    DetectionLimits,
    Intent,
    SemanticModel,
    SemanticStage,
    StageRequest,
    read_intents,
)
from toolgate.intents.semantic import stage as semantic_stage
from toolgate.intents.semantic.background import Background, background_texts
from toolgate.intents.semantic.message_splitting import repeats_previous, split_requests
from toolgate.intents.semantic.model import TrainingSet
from toolgate.intents.semantic.model_file import read_model, write_model
from toolgate.intents.semantic.ngrams import COLUMNS, fit_vectorizer
from toolgate.intents.semantic.softmax import TrainingCancelledError, fit_softmax
from toolgate.intents.semantic.stage import training_set_of
from toolgate.intents.semantic.training import fit
from toolgate.models.embedders import Embedder, Reads, TextKind, Vectors
from toolgate.types import PluginSpec

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "clinc12.jsonl").read_text("utf-8").splitlines()
]
TESTED = [row for row in ROWS if row["split"] == "test" and row["intent"]]
FOREIGN = [row["text"] for row in ROWS if row["intent"] is None]
TODAY = date(2025, 10, 21)

FEW = {
    "refunds": ("give me my money back", "i want a refund", "return my payment please"),
    "relations": ("create a relation", "join two tables", "link orders and customers"),
}


def intents_of(prompts: dict[str, tuple[str, ...]]) -> list[Intent]:
    return [Intent(name=name, prompts={"en": texts}) for name, texts in prompts.items()]


def taught() -> list[Intent]:
    prompts: dict[str, list[str]] = {}
    for row in ROWS:
        if row["split"] == "train":
            prompts.setdefault(row["intent"], []).append(row["text"])
    return intents_of({name: tuple(texts) for name, texts in prompts.items()})


def bundled() -> Embedder:
    spec = PluginSpec(name="bundled", setting="search.embedder", options={})
    return make("embedder", Embedder, spec, {})


@lru_cache(maxsize=2)
def learned(embedder: bool) -> SemanticStage:
    stage = SemanticStage(embedder=bundled() if embedder else None)
    anyio.run(stage.update, taught())
    return stage


@lru_cache(maxsize=1)
def small() -> SemanticModel:
    return fitted_by_words(training_set_of(intents_of(FEW)))


def fitted_by_words(
    lessons: TrainingSet, is_cancelled: Callable[[], bool] = lambda: False
) -> SemanticModel:
    others = background_texts({})
    background = Background(
        texts=[text for text, _ in others],
        lines=[line for _, line in others],
        vectors=np.zeros((len(others), 0), np.float32),
    )
    prompts = np.zeros((len(lessons.texts), 0), np.float32)
    names = np.zeros((len(lessons.intents), 0), np.float32)
    return fit(lessons, prompts, names, background, is_cancelled=is_cancelled)


def asked(stage: SemanticStage, text: str, *previous: str) -> Detection:
    return anyio.run(stage.classify, StageRequest(text=text, today=TODAY, previous=previous))


class Broken:
    """An embedder that works while prompts are learned, and then no more."""

    def __init__(self) -> None:
        self.inner, self.fails = bundled(), False

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def reads(self) -> Reads:
        return self.inner.reads

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if self.fails:
            raise EmbedderError("The service is gone.")
        return await self.inner.embed(texts, kind)


@pytest.mark.parametrize(
    ("embedder", "right", "caught"), [(True, 0.9, 0.9), (False, 0.85, 0.8)], ids=["bundled", "none"]
)
def test_twelve_prompts_an_intent_are_enough_to_tell_twelve_intents(
    embedder: bool, right: float, caught: float
) -> None:
    """Quality gate; measured when it was set: 93.8 and 100 %, without embedder 91.7 and 90 %."""
    stage = learned(embedder)
    found = [asked(stage, row["text"]).intent == row["intent"] for row in TESTED]
    silent = [asked(stage, text).intent == NONE for text in FOREIGN]

    assert np.mean(found) >= right
    assert np.mean(silent) >= caught


def test_the_cut_turns_away_as_many_good_messages_as_are_allowed() -> None:
    model = learned(True).model
    assert model is not None
    for share in (0.02, 0.05, 0.2):
        cut = model.cut(DetectionLimits(false_alarms=share))
        confidence = model.held_confidences
        assert abs(float(np.mean(confidence < cut)) - share) <= 0.02


@pytest.mark.parametrize("embedder", [True, False], ids=["bundled", "without"])
def test_confidences_are_shares_of_right_answers(embedder: bool) -> None:
    """On messages that no prompt is equal to, with as many meant for nobody as are expected.

    With the 12 intents of these prompts, that is 4 messages meant for nobody to 3 meant for one.
    """
    stage = learned(embedder)
    meant = [(asked(stage, row["text"]), row["intent"]) for row in TESTED]
    others = [(asked(stage, text), "") for text in FOREIGN]
    weights = np.array([1 / len(meant)] * len(meant) + [4 / 3 / len(others)] * len(others))
    confidence = np.array([found.confidence for found, _ in [*meant, *others]])
    right = np.array([found.intent == intent for found, intent in [*meant, *others]])
    assert abs(float((confidence - right) @ weights / weights.sum())) <= 0.05


@pytest.mark.parametrize("draw", range(3))
def test_five_prompts_are_enough_to_turn_away_what_is_meant_for_others(draw: int) -> None:
    """Without messages of everyday life, up to 40 % were answered, depending on the prompts."""
    free = random.Random(draw)
    chosen = free.sample(sorted({row["intent"] for row in TESTED}), 2)
    prompts = {
        name: tuple(
            free.sample(
                [row["text"] for row in ROWS if (row["split"], row["intent"]) == ("train", name)], 5
            )
        )
        for name in chosen
    }
    stage = SemanticStage(embedder=bundled())
    anyio.run(stage.update, intents_of(prompts))

    answered = [text for text in FOREIGN if asked(stage, text).intent != NONE]
    found = [row for row in TESTED if asked(stage, row["text"]).intent == row["intent"]]

    assert len(answered) <= 0.08 * len(FOREIGN)
    assert len(found) >= 0.6 * sum(row["intent"] in chosen for row in TESTED)


MENTIONED = {
    "invoices": (
        *("show the open invoices", "list all invoices of May", "open invoice 4711"),
        *("which invoices are overdue?", "print the invoice for Miller", "cancel invoice 12"),
        *("send the invoice again", "create an invoice for the garage"),
    ),
    "vouchers": (
        *("create a voucher for Anna", "which vouchers are still valid?", "extend the voucher 77"),
        *("list the vouchers of last year", "block this voucher", "resend the voucher to Tom"),
        *("how much is left on the voucher", "print a voucher over 50 euros"),
    ),
}


def test_a_message_that_only_mentions_what_a_pack_is_about_is_turned_away() -> None:
    """Without messages of this kind to learn from, five of the seven were claimed."""
    stage = SemanticStage(embedder=bundled())
    anyio.run(stage.update, intents_of(MENTIONED))
    mentions = (
        *("the invoices were on the agenda again", "we can do without the invoice"),
        *("is there a nicer word for invoice?", "I spent my weekend on the invoices"),
        *("the voucher can wait until spring", "he printed the invoice on a mug"),
        "my boss never stops talking about vouchers",
    )
    requests = {
        "create a voucher for Lisbon": "vouchers",
        "print the invoice for the kindergarten": "invoices",
        "open invoice 815": "invoices",
        "which vouchers are expired?": "vouchers",
    }

    assert [text for text in mentions if asked(stage, text).intent != NONE] == []
    assert {text: asked(stage, text).intent for text in requests} == requests


def test_a_threshold_of_ones_own_overrides_the_cut() -> None:
    async def both() -> tuple[Detection, Detection, Detection]:
        stage = SemanticStage()
        request = StageRequest(text="i want a refund", today=TODAY)
        await stage.update(intents_of(FEW), limits=DetectionLimits(threshold=0.0))
        open_ = await stage.classify(request)
        await stage.update(intents_of(FEW), limits=DetectionLimits(threshold=1.0))
        closed = await stage.classify(request)
        await stage.update(
            intents_of(FEW),
            limits=DetectionLimits(threshold=1.0),
            own_limits={"refunds": DetectionLimits(threshold=0.0)},
        )
        return open_, closed, await stage.classify(request)

    open_, closed, own = anyio.run(both)
    assert (open_.intent, closed.intent, own.intent) == ("refunds", NONE, "refunds")
    assert "1.00 is needed" in closed.reason
    assert closed.candidates[0].intent == "refunds"


def test_a_message_like_a_prompt_in_a_language_not_asked_for_is_turned_away() -> None:
    stage = SemanticStage()
    prompts = {"en": FEW["refunds"], "fr": ("rendez-moi mon argent", "je veux un remboursement")}
    others = Intent(name="relations", prompts={"en": FEW["relations"]})
    anyio.run(stage.update, [Intent(name="refunds", prompts=prompts), others])

    def judged(*languages: str) -> Detection:
        request = StageRequest(text="je veux mon argent", today=TODAY, languages=languages)
        return anyio.run(stage.classify, request)

    assert [judged().intent, judged("fr").intent] == ["refunds", "refunds"]
    assert judged("en").intent == NONE
    assert "'fr', which is not asked for" in judged("en").reason


def test_two_requests_in_one_message_give_two_intents() -> None:
    found = asked(learned(True), "freeze my bank account and set an alarm for 7 am")
    assert set(found.intents) == {"freeze_account", "alarm"}
    assert found.intent == found.intents[0]
    assert found.question == ""


def test_one_request_with_an_and_in_it_stays_one() -> None:
    found = asked(
        learned(True), "book me a flight from boston to denver on may 3 and back on may 7"
    )
    assert found.intents == ("book_flight",)


def test_the_same_again_means_the_intent_before() -> None:
    found = asked(learned(True), "now do the same for products", "transfer")
    assert (found.intent, found.use_mcp) == ("transfer", True)
    assert "'transfer'" in found.reason
    assert asked(learned(True), "now do the same for products").intent != "transfer"


def test_a_message_between_two_intents_is_answered_with_a_question() -> None:
    prompts = {
        "red": ("paint it red", "make it red", "colour the door red", "red please"),
        "blue": ("paint it blue", "make it blue", "colour the door blue", "blue please"),
    }
    stage = SemanticStage()
    anyio.run(lambda: stage.update(intents_of(prompts), limits=DetectionLimits(threshold=0.0)))
    found = asked(stage, "paint the door")
    assert found.question in {
        "Is this about red or about blue?",
        "Is this about blue or about red?",
    }
    assert {one.intent for one in found.candidates} == {"red", "blue"}
    other = next(one.intent for one in found.candidates if one.intent != found.intent)
    settled = asked(stage, "paint the door", other)
    assert (settled.intent, settled.question) == (other, "")


def test_examples_of_what_is_not_offered_are_turned_away() -> None:
    stage = SemanticStage(embedder=bundled())
    unsupported = ("cancel my order", "where is my parcel", "change the delivery address")

    async def learn() -> None:
        await stage.update(
            intents_of(FEW), unsupported=unsupported, limits=DetectionLimits(threshold=0.0)
        )

    anyio.run(learn)
    found = asked(stage, "where is the parcel")
    assert found.intent == NONE
    assert found.reason == "It is like the examples of what is not offered."
    assert all(one.intent for one in found.candidates)
    assert asked(stage, "i want a refund").intent == "refunds"


def test_a_message_that_stands_among_what_is_not_offered_is_turned_away() -> None:
    """However much it is like the prompts: whoever adds it there wants no answer to it."""
    stage = SemanticStage()
    alike = "i want a refund for my gift card"

    async def learn(*unsupported: str) -> None:
        await stage.update(
            intents_of(FEW), unsupported=unsupported, limits=DetectionLimits(threshold=0.0)
        )

    anyio.run(learn)
    before = asked(stage, alike)
    anyio.run(learn, alike)
    after = asked(stage, alike.upper().replace(" ", "  "))

    assert (before.intent, after.intent) == ("refunds", NONE)
    assert after.reason == "This very message is known as one that is not answered."


def test_before_anything_is_learned_the_answer_is_none_with_that_reason() -> None:
    found = asked(SemanticStage(), "i want a refund")
    assert (found.intent, found.use_mcp, found.confidence) == (NONE, False, 0.0)
    assert "not learned yet" in found.reason


def test_a_pack_without_prompts_and_one_with_a_single_intent_are_fine() -> None:
    stage = SemanticStage()
    anyio.run(stage.update, [Intent(name="refunds")])
    assert asked(stage, "i want a refund").intent == NONE
    anyio.run(stage.update, intents_of({"refunds": FEW["refunds"]}))
    assert asked(stage, "i want a refund").intent == "refunds"
    assert asked(stage, "zzzz").intent == NONE
    anyio.run(stage.update, intents_of({"a": ("only one",), "b": ("another one",)}))
    assert asked(stage, "only one").candidates[0].intent == "a"


def test_an_embedder_that_fails_leaves_the_words() -> None:
    embedder = Broken()
    stage = SemanticStage(embedder=embedder)
    anyio.run(lambda: stage.update(intents_of(FEW), limits=DetectionLimits(threshold=0.0)))
    embedder.fails = True
    assert asked(stage, "i want a refund").intent == "refunds"

    fresh = SemanticStage(embedder=embedder)
    with pytest.raises(EmbedderError):
        anyio.run(fresh.update, intents_of(FEW))
    assert not fresh.ready


def test_what_was_learned_is_kept_and_taken_again(tmp_path: Path) -> None:
    async def twice() -> tuple[SemanticStage, SemanticStage]:
        first = SemanticStage(cache=tmp_path)
        await first.update(intents_of(FEW))
        second = SemanticStage(cache=tmp_path)
        await second.update(intents_of(FEW))
        return first, second

    first, second = anyio.run(twice)
    (kept,) = tmp_path.glob("intents-*.npz")
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]
    assert asked(first, "i want a refund") == asked(second, "i want a refund")

    kept.write_bytes(kept.read_bytes()[:100])
    third = SemanticStage(cache=tmp_path)
    anyio.run(third.update, intents_of(FEW))
    assert asked(third, "i want a refund") == asked(first, "i want a refund")


def test_changed_prompts_are_learned_and_remembered_judgements_forgotten() -> None:
    stage = SemanticStage()
    anyio.run(lambda: stage.update(intents_of(FEW), limits=DetectionLimits(threshold=0.0)))
    assert asked(stage, "i want a refund").intent == "refunds"
    assert stage.remembers("I want a  REFUND")
    assert not stage.remembers("another message")
    moved = {"refunds": FEW["refunds"][:1], "claims": ("i want a refund", "a refund, now")}
    anyio.run(lambda: stage.update(intents_of(moved), limits=DetectionLimits(threshold=0.0)))
    assert asked(stage, "i want a refund").intent == "claims"


def test_equal_prompts_are_learned_against_equal_messages_in_every_process() -> None:
    """Of topics of the same length, all of which every prompt has, the first ones are taken."""
    prompt = "aaaa bbbb cccc aaaa dddd eeee aaaa ffff gggg aaaa hhhh iiii"
    messages = background_texts({"en": {"intent": (prompt,) * 3}})

    words = prompt.split()
    phrases = {" ".join(words[at : at + 3]) for at in range(len(words) - 2)}
    topics = {phrase for phrase in phrases for text, _ in messages if phrase in text}
    assert topics == {"aaaa bbbb cccc", "aaaa dddd eeee", "aaaa ffff gggg"}


def test_a_prompt_that_stands_twice_counts_once_and_for_the_first() -> None:
    lessons = training_set_of(intents_of({"a": ("Do it!", "do it !"), "b": ("DO IT!", "leave it")}))
    assert lessons.texts == ("do it !", "leave it")
    assert lessons.owners == (0, 1)


def test_an_explanation_names_every_intent_and_the_nearest_prompts() -> None:
    found = anyio.run(learned(True).explain, "please freeze my account")
    assert found is not None
    assert len(found.ranked) == 12
    assert found.ranked[0][0] == "freeze_account"
    assert found.nearest[0][0] == "freeze_account"
    assert 0 <= found.cut <= 1
    assert found.embedder.startswith("bundled")


@given(st.text(max_size=200))
@settings(max_examples=30, deadline=None)
def test_any_text_gets_probabilities_that_sum_to_one_at_most(text: str) -> None:
    model = small()
    found = model.predict(text, None)
    assert found == model.predict(text, None)
    assert sum(share for _, share in found.ranked) <= 1 + 1e-6
    assert all(0 <= share <= 1 for _, share in found.ranked)
    assert [share for _, share in found.ranked] == sorted(
        (share for _, share in found.ranked), reverse=True
    )
    assert 0 <= found.sure <= 1
    assert split_requests(text)
    repeats_previous(text)


@given(st.lists(st.text(max_size=12), max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_row_depends_on_its_text_alone(texts: list[str]) -> None:
    grams = fit_vectorizer([*texts, "some words"])
    rows = grams.rows(texts)
    assert rows.shape == (len(texts), COLUMNS)
    for text, row in zip(texts, rows, strict=True):
        assert np.allclose(row, grams.rows([text])[0], atol=1e-6)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=20)), max_size=12))
@settings(max_examples=8, deadline=None)
def test_any_prompts_can_be_learned(pairs: list[tuple[str, str]]) -> None:
    prompts: dict[str, tuple[str, ...]] = {}
    for name, text in pairs:
        prompts[name] = (*prompts.get(name, ()), text)
    lessons = training_set_of(intents_of(prompts))
    model = fitted_by_words(lessons)
    found = model.predict("some words", None)
    assert 0 <= found.confidence <= 1
    assert read_model(write_model(model)).training_set == lessons


def test_the_same_prompts_give_the_same_model_and_a_file_gives_it_back() -> None:
    model = small()
    again = fitted_by_words(model.training_set)
    assert write_model(model) == write_model(again)
    back = read_model(write_model(model))
    assert back.predict("a refund", None) == model.predict("a refund", None)
    for damaged in (b"", b"PK", write_model(model)[:500]):
        with pytest.raises(ValueError, match="model"):
            read_model(damaged)


def test_softmax_regression_finds_the_minimum() -> None:
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(60, 5)).astype(np.float32)
    classes = (rows[:, 0] > 0).astype(np.intp) + (rows[:, 1] > 1)
    model = fit_softmax(rows, classes, 3, strength=2.0, steps=200, tolerance=1e-6)
    odds = np.exp(model.logits(rows))
    odds /= odds.sum(axis=1, keepdims=True)
    odds[np.arange(60), classes] -= 1
    slope = 2.0 * rows.T @ odds + model.weights
    assert float(np.abs(slope).max()) < 1e-2
    assert float(np.abs(odds.sum(axis=0)).max()) < 1e-2


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("create a relation", ("create a relation",)),
        ("create a relation and a value list", ("create a relation", "create a value list")),
        ("freeze my card, then call me", ("freeze my card", "call me")),
        ("lösche die Relation und öffne die Werteliste", 2),
        ("abre la relación y borra la lista", 2),
        ("crea una relazione tra articoli e fornitori", 1),
        ("maak een lijst met ja en nee en open het scherm", 2),
        ("abre el formulario en la tabla", 1),
        ("建一个列表，然后打开表单", ("建一个列表", "打开表单")),
        ("a, b, c, d, e, f, g, h", 1),
        ("", ("",)),
    ],
)
def test_messages_are_parted_where_a_request_may_begin(
    message: str, expected: tuple[str, ...] | int
) -> None:
    found = split_requests(message)
    assert len(found) == expected if isinstance(expected, int) else found == expected


def test_a_folder_of_prompts_is_read_with_its_manifest_languages_and_limits(tmp_path: Path) -> None:
    home = tmp_path / "intents"
    home.mkdir()
    (tmp_path / "pack.toml").write_text("false_alarms = 0.1\n", "utf-8")
    (home / "refunds.txt").write_text("\ufeff# money\n\n  money back  \nrefund\n", "utf-8")
    (home / "refunds.de.txt").write_text("geld zurück\n", "utf-8")
    (home / "refunds.toml").write_text("threshold = 0.7\n", "utf-8")
    (home / "left_out.txt").write_text("nothing\n", "utf-8")
    (home / "embeddings.list").write_text(
        "# files\nrefunds.txt\n refunds.de.txt \nnotes.md\n", "utf-8"
    )
    (tmp_path / "unsupported.txt").write_text("where is my parcel\n", "utf-8")

    found = read_intents(tmp_path)

    (intent,) = found.intents
    assert intent.name == "refunds"
    assert intent.prompts == {"": ("money back", "refund"), "de": ("geld zurück",)}
    assert found.limits == DetectionLimits(false_alarms=0.1)
    assert found.own_limits == {"refunds": DetectionLimits(false_alarms=0.1, threshold=0.7)}
    assert found.unsupported == ("where is my parcel",)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("intents/a.txt", b"\xff\xfe\x00", r"a\.txt:1: this is not UTF-8 text"),
        ("intents/a.txt", b"x\nab\0c", r"a\.txt:2: this is not text"),
        ("intents/none.txt", b"x", "cannot be called 'none'"),
        ("intents/a.txt", b"# nothing\n", "there are no prompts in it"),
        ("intents/embeddings.list", b"../secret.txt", "no file '../secret.txt'"),
        ("pack.toml", b"threshold = 2", r"pack\.toml:1: 'threshold' is 2\. It has to be 0 to 1"),
        ("pack.toml", b"threshold = ", "pack.toml"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / "intents").mkdir()
    if name != "intents/a.txt" and not name.endswith("none.txt"):
        (tmp_path / "intents" / "ok.txt").write_text("fine\n", "utf-8")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PackError, match=reason):
        read_intents(tmp_path)
    with pytest.raises(PackError, match="is not a folder"):
        read_intents(tmp_path / "missing")


def test_a_training_that_nobody_needs_any_more_is_given_up() -> None:
    with pytest.raises(TrainingCancelledError):
        fitted_by_words(training_set_of(intents_of(FEW)), is_cancelled=lambda: True)


async def test_the_thread_of_a_cancelled_training_is_told_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, ended = anyio.Event(), threading.Event()

    def endless(*_: object, is_cancelled: Callable[[], bool]) -> None:
        anyio.from_thread.run_sync(begun.set)
        while not is_cancelled():
            time.sleep(0.01)
        ended.set()

    monkeypatch.setattr(semantic_stage, "fit", endless)
    stage = SemanticStage()
    intent = Intent(name="REFUND", prompts={"en": ("give me my money back", "refund me")})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.update, [intent])
        await begun.wait()
        tasks.cancel_scope.cancel()

    assert await anyio.to_thread.run_sync(ended.wait, HANG_S)
