"""What is learned from use: votes, the line, pairs; the log is written without holding up."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.limits import HANG_S
from toolgate.errors import OptionError, StoreError
from toolgate.search import Hit, Learning, SearchedQuery
from toolgate.search.personal_cutoff import HIGHEST, LOWEST, JudgedSearch, PersonalCutoff
from toolgate.search.relevance.calibration import Fit
from toolgate.search.relevance.usage_votes import (
    Support,
    UsageHistory,
    UsageWeights,
    apply_usage,
    mix_in_unboosted,
)
from toolgate.search.usage import learning as learning_module
from toolgate.search.usage.writer import UsageLogWriter
from toolgate.search.usage.wrong_marks import WrongMarks
from toolgate.settings import AuditSettings, CurrentSettings, Settings, UsageSettings
from toolgate.store import StoredSearch, StoredUse, UsageEntry, UsageFilter
from toolgate.store.engine.sqlite_file import MEMORY
from toolgate.store.sql.usage import SqlUsage
from toolgate.store.sqlite import SqliteStore
from toolgate.types import Caller

DAY_S = 86_400.0
WEIGHTS = UsageWeights()
ANN = Caller.local(caller_id="ann", conversation="c")


def unit(*values: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    row = np.zeros(8, np.float32)
    row[: len(values)] = values
    return (row / np.linalg.norm(row)).astype(np.float32)


def packed(*values: float) -> bytes:
    return unit(*values).astype("<f2").tobytes()


def known(most: int = 4_000) -> UsageHistory:
    return UsageHistory(8, half_life_s=60 * DAY_S, max_requests=most)


# Votes


def test_a_request_like_an_earlier_one_raises_the_tool_that_worked() -> None:
    experience = known()
    experience.add(packed(1), "a:x", 1.0, 0.0)
    experience.add(packed(0, 1), "b:y", 1.0, 0.0)

    votes = experience.votes(unit(1), WEIGHTS, 0.0)

    assert votes.trust == 1
    assert votes.shares == {"a:x": pytest.approx(0.5)}


def test_a_vote_counts_by_the_conversations_and_callers_behind_it() -> None:
    experience = known()
    for number in range(4):
        experience.add(packed(1), "a:x", 1.0, 0.0, caller=f"{number % 2}", conversation=f"{number}")

    votes = experience.votes(unit(1), WEIGHTS, 0.0)

    assert votes.shares["a:x"] == pytest.approx(0.8)
    assert votes.support["a:x"] == Support(callers=2, conversations=4)
    assert not votes.support["a:x"].is_proven


def test_a_request_unlike_all_others_gets_no_trust() -> None:
    experience = known()
    experience.add(packed(1), "a:x", 1.0, 0.0)

    assert experience.votes(unit(0, 1), WEIGHTS, 0.0).trust == 0
    assert experience.votes(unit(0.45, 0.89), WEIGHTS, 0.0).trust == 0


def test_use_fades_and_new_use_renews_it() -> None:
    experience = known()
    experience.add(packed(1), "a:x", 1.0, 0.0)
    experience.add(packed(1), "a:y", 1.0, 0.0)
    experience.add(packed(1), "a:y", 1.0, 60 * DAY_S)

    shares = experience.votes(unit(1), WEIGHTS, 60 * DAY_S).shares

    assert shares["a:y"] == pytest.approx(0.5)
    assert shares["a:x"] == pytest.approx(0.125, abs=0.01)


def test_what_was_marked_wrong_votes_against() -> None:
    experience = known()
    experience.add(packed(1), "a:x", 1.0, 0.0)
    experience.add(packed(1), "a:x", -2.0, 1.0)

    votes = experience.votes(unit(1), WEIGHTS, 1.0)
    scores, lift = apply_usage(
        np.array([0.4, 0.3], np.float32),
        {0: votes.shares["a:x"]},
        WEIGHTS,
        literal=np.zeros(2, np.float32),
        support={},
    )

    assert votes.shares["a:x"] == pytest.approx(-1, abs=0.01)
    assert 0 < scores[0] < scores[1]
    assert lift.reason(0) == "called wrong for a similar request"
    assert not lift.is_source(0)


def test_wrong_marks_stay_few_and_forgotten_callers_have_none() -> None:
    marks = WrongMarks(8, half_life_s=60 * DAY_S)
    callers = [f"caller {number}" for number in range(3_000)]
    for at, caller_id in enumerate(callers):
        marks.add(packed(1), f"a:{at}", caller_id, -2.0, float(at))

    assert sum(map(marks.has, callers)) == 1_000
    assert not marks.has(callers[0])
    last = len(callers) - 1
    against = marks.votes_against(unit(1), WEIGHTS, float(last), callers[last])
    assert against == {f"a:{last}": pytest.approx(1)}


async def test_wrong_marks_can_be_made_while_a_search_runs_in_another_thread() -> None:
    marks = WrongMarks(8, half_life_s=60 * DAY_S)

    def search() -> None:
        for _ in range(200):
            marks.votes_against(unit(1), WEIGHTS, 0.0, "ann")

    async with anyio.create_task_group() as searches:
        searches.start_soon(anyio.to_thread.run_sync, search)
        for number in range(2_000):
            await anyio.lowlevel.checkpoint()
            marks.add(packed(1, number), "a:x", "ann", -2.0, 0.0)


SHARES = st.floats(0, 1, width=32)
TOOLS = st.lists(st.tuples(SHARES, SHARES), min_size=2, max_size=12)


@given(TOOLS, st.data())
def test_no_single_caller_lifts_a_tool_over_a_better_literal_match(
    tools: list[tuple[float, float]], data: st.DataObject
) -> None:
    scores = np.round(np.array([score for score, _ in tools], np.float32), 5)
    literal = np.array([share for _, share in tools], np.float32)
    slot = data.draw(st.integers(0, len(tools) - 1))
    conversations = data.draw(st.integers(1, 9))
    share = data.draw(st.floats(0, 1))

    changed, _ = apply_usage(
        scores,
        {slot: share},
        WEIGHTS,
        literal=literal,
        support={slot: Support(callers=1, conversations=conversations)},
        siblings=np.arange(len(tools)) == slot,
    )

    ahead = scores > scores[slot]
    assert not (ahead & (literal > literal[slot]) & (changed <= changed[slot])).any()
    assert changed[slot] >= scores[slot]
    if conversations == 1 and ahead.any():
        assert changed[slot] < changed.max()


def test_the_log_of_a_project_keeps_what_was_used_last() -> None:
    experience = known(most=8)
    for at in range(40):
        row = np.zeros(8)
        row[at % 8], row[(at + 1) % 8] = 1, at / 40
        experience.add(row.astype("<f2").tobytes(), f"s:{at}", 1.0, float(at))

    assert len(experience) <= 10
    last = np.zeros(8, np.float32)
    last[39 % 8], last[0] = 1, 39 / 40
    last /= np.float32(np.linalg.norm(last))
    votes = experience.votes(last, WEIGHTS, 40.0)
    assert "s:39" in votes.shares


@pytest.mark.parametrize("vector", [b"", b"\0" * 16, b"\0" * 6, b"\xff\x7f" * 8])
def test_a_vector_that_is_none_is_left_out(vector: bytes) -> None:
    experience = known()
    experience.add(vector, "a:x", 1.0, 0.0)

    assert len(experience) == 0


def test_some_places_stay_with_the_ranking_without_the_log() -> None:
    ranked, plain = [9, 8, 7, 6, 5], [1, 2, 3, 9, 8]

    assert mix_in_unboosted(ranked, plain, 0.4) == [9, 8, 7, 1, 2]
    assert mix_in_unboosted(ranked, plain, 0) == ranked
    assert mix_in_unboosted(plain, plain, 0.4) == plain
    assert mix_in_unboosted([], [], 0.4) == []
    assert mix_in_unboosted(ranked, plain, 1) == plain


@pytest.mark.parametrize(
    "wrong", [{"weight": 2}, {"nearest": 0}, {"explore": -1}, {"trust_from": 0.9}]
)
def test_weights_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="Allowed: "):
        UsageWeights(**wrong)


# The line


def judged(margin: float, fitted: bool, weight: float = 1.0, model: str = "m") -> JudgedSearch:
    return JudgedSearch(margin=margin, fitted=fitted, weight=weight, model=model)


def test_a_weak_tool_that_was_used_lowers_the_line_under_it() -> None:
    assert PersonalCutoff([judged(-0.03, True)]).shift("m") == -0.03
    assert PersonalCutoff([judged(-0.03, True)] * 9).shift("other") == 0


def test_a_single_wrong_mark_does_not_raise_the_line_and_several_do() -> None:
    assert PersonalCutoff([judged(0.005, False)]).shift("m") == 0
    assert PersonalCutoff([judged(0.005, False)] * 4).shift("m") == 0.01


def test_the_line_stays_within_its_bounds_and_goes_back_without_news() -> None:
    low = [judged(-0.5, True)] * 100 + [judged(-0.075, True)] * 100
    assert PersonalCutoff(low).shift("m") == LOWEST
    assert PersonalCutoff([judged(0.035, False)] * 500).shift("m") == HIGHEST
    assert PersonalCutoff([judged(0.035, False, weight=0.001)] * 500).shift("m") == 0
    assert PersonalCutoff().shift("m") == 0


def test_fitting_tools_keep_the_line_from_rising_over_them() -> None:
    """Our decision: a false alarm costs five times what a missed notice costs."""
    mixed = [judged(0.015, False)] * 20 + [judged(0.012, True)] * 5

    assert PersonalCutoff(mixed).shift("m") <= 0.01


# The service


class Clock:
    """A time that a test moves."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 7, 28, 12, tzinfo=UTC)

    def __call__(self) -> float:
        return self.moment.timestamp()

    def pass_s(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def learning(store: Any, clock: Clock, *, keep: bool = False, **rules: Any) -> Learning:
    settings = Settings(usage=UsageSettings(**rules), audit=AuditSettings(keep_queries=keep))
    return Learning(store.usage, settings=CurrentSettings(settings), clock=clock)


@pytest.fixture
async def store() -> Any:
    made = SqliteStore(MEMORY)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def asked(
    query: str, *values: float, margin: float | None = 0.1, fit: Fit = "good"
) -> SearchedQuery:
    return SearchedQuery(query=query, vector=unit(*values), margin=margin, fit=fit)


def hit(key: str, query: str = "q") -> Hit:
    return Hit(key=key, relevance=0.5, explanation="", fields={"query": query})


async def test_a_call_belongs_to_the_last_search_that_showed_its_tool(
    store: Any, clock: Clock
) -> None:
    learner = learning(store, clock)
    learner.note_search(ANN, [asked("one", 1)], "m", [hit("a:x", "one")])
    learner.note_search(ANN, [asked("two", 0, 1)], "m", [hit("b:y", "two")], {"b:z"})

    learner.note_call(ANN, "a:x", ok=True)
    learner.note_call(ANN, "a:x", ok=True)
    learner.note_call(ANN, "b:z", ok=False)
    learner.note_call(ANN, "never:shown", ok=True)
    other = Caller.local(caller_id="ann", conversation="another")
    learner.note_call(other, "b:y", ok=True)
    await learner.aclose()

    found = await store.usage.select(UsageFilter(project_id="default"))
    assert [[(use.tool, use.outcome) for use in each.uses] for each in found] == [
        [("b:z", "error")],
        [("a:x", "ok")],
    ]
    assert [each.search.query for each in found] == [None, None]


async def test_a_use_counts_once_however_often_the_log_is_read(
    store: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that was used again comes with its earlier uses, whose ids are not kept for ever."""
    monkeypatch.setattr(learning_module, "_LOOK_AGAIN_S", 0.0)
    writer, reader = learning(store, clock), learning(store, clock)
    writer.note_search(ANN, [asked("one", 1)], "m", [hit("a:x", "one"), hit("b:y", "one")])
    versions: list[Any] = []
    for key in ("a:x", "b:y"):
        clock.pass_s(300)
        writer.note_call(ANN, key, ok=True)
        await writer.flush()
        for _ in range(3):
            clock.pass_s(100)
            for learner in (writer, reader):
                await learner.learned(ANN)  # begins to read
                await store.usage.select(UsageFilter(project_id="default"))  # waits its turn
                await anyio.wait_all_tasks_blocked()
                learned = await learner.learned(ANN)
                assert learned is not None
                versions.append((learner is reader, key, learned.version))

    assert len(set(versions)) == 4


async def test_each_query_of_a_search_has_its_own_hits(store: Any, clock: Clock) -> None:
    learner = learning(store, clock, keep=True)
    queries = [asked("one", 1), asked("two", 0, 1)]

    learner.note_search(ANN, queries, "m", [hit("a:x", "one"), hit("b:y", "two")])
    learner.note_call(ANN, "b:y", ok=True)
    await learner.aclose()

    found = await store.usage.select(UsageFilter(project_id="default", with_uses=True))
    assert [(each.search.query, each.search.shown) for each in found] == [("two", (("b:y", 0.5),))]


async def test_a_later_wording_teaches_the_earlier_ones_that_led_nowhere(
    store: Any, clock: Clock
) -> None:
    learner = learning(store, clock, keep=True)
    for query, row, keys in (
        ("long ago", (1, 0.1), ("b:y",)),
        ("same words", (1, 0.2), ("b:y",)),
        ("used before", (1, 0.3), ("b:y",)),
        ("another topic", (0, 0, 1), ("c:z",)),
        ("new words", (1, 0.4), ("a:x",)),
    ):
        clock.pass_s(20)
        learner.note_search(ANN, [asked(query, *row)], "m", [hit(key) for key in keys])
        if query == "used before":
            learner.note_call(ANN, "b:y", ok=True)
            clock.pass_s(1)

    learner.note_call(ANN, "a:x", ok=True)
    await learner.aclose()

    entries = await store.usage.select(UsageFilter(project_id="default", with_uses=True))
    uses = {(entry.search.query, use.tool, use.outcome) for entry in entries for use in entry.uses}
    assert ("new words", "a:x", "ok") in uses
    assert {(query, tool) for query, tool, outcome in uses if outcome == "reworded"} == {
        ("long ago", "b:y"),
        ("same words", "b:y"),
    }


async def test_the_steps_of_a_search_are_not_wordings_of_each_other(
    store: Any, clock: Clock
) -> None:
    learner = learning(store, clock)
    steps = [asked("read the file", 1), asked("write the file", 1, 0.2)]
    learner.note_search(
        ANN, steps, "m", [hit("a:x", "read the file"), hit("a:y", "write the file")]
    )
    learner.note_call(ANN, "a:x", ok=True)
    await learner.aclose()

    entries = await store.usage.select(UsageFilter(project_id="default", with_uses=True))
    assert [[use.outcome for use in entry.uses] for entry in entries] == [["ok"]]


async def test_what_was_learned_is_there_after_a_restart(store: Any, clock: Clock) -> None:
    first = learning(store, clock)
    first.note_search(ANN, [asked("one", 1)], "m", [hit("a:x")])
    first.note_call(ANN, "a:x", ok=True)
    await first.aclose()

    again = await learning(store, clock).learned(ANN)

    assert again is not None
    assert again.votes(unit(1), "m", WEIGHTS).shares == {"a:x": pytest.approx(0.5, abs=0.01)}
    assert again.votes(unit(1), "another model", WEIGHTS).shares == {}


async def test_nothing_is_learned_across_projects(store: Any, clock: Clock) -> None:
    learner = learning(store, clock)
    learner.note_search(ANN, [asked("one", 1)], "m", [hit("a:x")])
    learner.note_call(ANN, "a:x", ok=True)

    other = await learner.learned(Caller.local(caller_id="ann", project_id="other"))

    assert other is not None
    assert other.votes(unit(1), "m", WEIGHTS).shares == {}
    await learner.aclose()


async def test_switched_off_nothing_is_logged(store: Any, clock: Clock) -> None:
    learner = learning(store, clock, enabled=False)
    learner.note_search(ANN, [asked("one", 1)], "m", [hit("a:x")])
    learner.note_call(ANN, "a:x", ok=True)

    assert await learner.learned(ANN) is None
    assert learner.recent(ANN) == ()
    await learner.aclose()
    assert (await store.sizes())["usage_searches"] == 0


async def test_marks_move_the_line_of_their_caller_only(store: Any, clock: Clock) -> None:
    learner = learning(store, clock)
    weak = asked("one", 1, margin=-0.02, fit="none")
    learner.note_search(ANN, [weak], "m", [hit("a:x")])

    assert await learner.mark(ANN, "a:x", right=True)
    assert not await learner.mark(ANN, "b:unknown", right=True)

    mine, others = await learner.learned(ANN), await learner.learned(Caller.local(caller_id="bob"))
    assert mine is not None
    assert others is not None
    assert (mine.line.shift("m"), others.line.shift("m")) == (-0.02, 0)
    clock.pass_s(600 * DAY_S)
    later = await learner.learned(ANN)
    assert later is not None
    assert later.line.shift("m") == 0
    await learner.aclose()


async def test_who_took_a_wrong_mark_back_shares_answers_again(store: Any, clock: Clock) -> None:
    """A version for each caller keeps its answers out of the cache of all."""
    learner = learning(store, clock, adapt_line=False)
    shared: list[bool] = []
    for right in (False, True):
        learner.note_search(ANN, [asked("one", 1)], "m", [hit("a:x")])
        await learner.mark(ANN, "a:x", right=right)
        states = [await learner.learned(caller) for caller in (ANN, Caller.local(caller_id="bob"))]
        shared.append(len({state.version for state in states if state}) == 1)
    await learner.aclose()

    assert shared == [False, True]


async def test_the_version_of_what_was_learned_changes_and_stays_small(
    store: Any, clock: Clock
) -> None:
    """Each kept answer has one: with all judged searches in it, that took 9 KB."""
    learner = learning(store, clock)
    versions: list[object] = []
    for number in range(30):
        learner.note_search(
            ANN, [asked(f"query {number}", 1)], "m", [hit("a:x", f"query {number}")]
        )
        learner.note_call(ANN, "a:x", ok=True)
        state = await learner.learned(ANN)
        assert state is not None
        versions.append(state.version)
    await learner.aclose()
    assert len(set(map(repr, versions))) == 30
    assert len(repr(versions[-1])) < 200


async def test_a_mark_finds_its_search_in_the_store(store: Any, clock: Clock) -> None:
    """The command line is a new process, and a new conversation, each time."""
    first = learning(store, clock)
    first.note_search(ANN, [asked("one", 1)], "m", [hit("a:x")])
    await first.aclose()

    second = learning(store, clock)
    assert await second.mark(Caller.local(caller_id="ann", conversation="new"), "a:x", right=False)
    assert not await second.mark(Caller.local(caller_id="bob"), "a:x", right=False)
    await second.aclose()

    found = await store.usage.select(UsageFilter(project_id="default", with_uses=True))
    assert [use.outcome for use in found[0].uses] == ["wrong"]


async def test_tools_used_together_again_and_again_are_offered_together(
    store: Any, clock: Clock
) -> None:
    learner = learning(store, clock)
    await learner.learned(ANN)
    for number in range(3):
        caller = Caller.local(caller_id="ann", conversation=f"c{number}")
        learner.note_search(caller, [asked("q", 1)], "m", [hit("a:x"), hit("a:y"), hit("a:z")])
        learner.note_call(caller, "a:x", ok=True)
        learner.note_call(caller, "a:y", ok=True)
        clock.pass_s(3_600)
        learner.note_call(caller, "a:z", ok=True)

    assert learner.used_together("default", ["a:x", "a:z"]) == {"a:x": ["a:y"]}
    assert learner.used_together("other", ["a:x"]) == {}
    await learner.aclose()


async def test_recent_tools_are_those_of_the_last_half_hour(store: Any, clock: Clock) -> None:
    learner = learning(store, clock)
    learner.note_call(ANN, "a:x", ok=True)
    clock.pass_s(1_000)
    learner.note_call(ANN, "a:y", ok=True)
    learner.note_call(ANN, "a:broken", ok=False)

    assert learner.recent(ANN) == ("a:y", "a:x")
    clock.pass_s(1_000)
    assert learner.recent(ANN) == ("a:y",)
    await learner.aclose()


async def test_what_is_cleared_is_forgotten_at_once(store: Any, clock: Clock) -> None:
    learner = learning(store, clock)
    learner.note_search(ANN, [asked("one", 1)], "m", [hit("a:x")])
    learner.note_call(ANN, "a:x", ok=True)

    assert await learner.clear("default") == 1

    status = await learner.status(ANN)
    assert (status.requests, status.tools, status.judged) == (0, 0, 0)
    await learner.aclose()


# Failures


class Sick(SqlUsage):
    """Fails until it is healed."""

    healthy = False

    async def append(self, searches: Sequence[StoredSearch], uses: Sequence[StoredUse]) -> None:
        if not self.healthy:
            raise StoreError("The disk is full.")
        await super().append(searches, uses)

    async def select(self, query: UsageFilter) -> list[UsageEntry]:
        if not self.healthy:
            raise StoreError("The disk is full.")
        return await super().select(query)


def use(number: int) -> StoredUse:
    return StoredUse(
        use_id=f"{number:08}", search_id="s", at="", project_id="p", tool="t", outcome="ok"
    )


async def test_a_full_disk_stops_nothing_and_loses_little() -> None:
    store = SqliteStore(MEMORY)
    await store.open()
    store.usage = sick = Sick(store)
    writer = UsageLogWriter(sick, max_pending=10)

    for number in range(12):
        writer.put(use(number))
    assert not await writer.flush()
    assert (writer.pending, writer.dropped, writer.last_error) == (10, 2, "The disk is full.")

    sick.healthy = True
    assert await writer.flush()
    assert (await store.sizes())["usage_uses"] == 10
    assert writer.last_error == ""
    await writer.aclose()
    await store.close()


async def test_a_store_that_cannot_be_read_costs_only_what_was_learned() -> None:
    store = SqliteStore(MEMORY)
    await store.open()
    store.usage = sick = Sick(store)
    learner = learning(store, Clock())
    with anyio.fail_after(HANG_S):
        learned = await learner.learned(ANN)

    assert learned is not None
    assert learned.votes(unit(1), "m", WEIGHTS).shares == {}
    sick.healthy = True
    await learner.aclose()
    await store.close()


async def test_closing_writes_what_is_left(store: Any, clock: Clock) -> None:
    learner = learning(store, clock)
    for number in range(1_200):
        learner.note_search(ANN, [asked(f"q{number}", 1)], "m", [])

    await learner.aclose()

    assert (await store.sizes())["usage_searches"] == 1_200
