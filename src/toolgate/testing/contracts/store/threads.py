"""The store contract for chat threads, their messages, and stored prompts."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from anyio import create_task_group

from toolgate.store import (
    PROJECT_THREAD,
    RESPONSE_PREFIX,
    PrunedCounts,
    Retention,
    Store,
    StoredArtifact,
    StoredMessage,
    StoredPrompt,
    StoredSpending,
    StoredThread,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import (
    HOSTILE,
    SAMPLE_PROJECT,
    append_turn,
    minute_at,
    sample_thread,
)
from toolgate.types import Json


class _Opening:
    """Reads all but the first message, and writes a question."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self.project_settings: Json | None = None
        self.messages: Sequence[StoredMessage] = ()

    def read_after(self, thread: StoredThread) -> int:
        return thread.last_number - 1

    def first_messages(
        self, thread: StoredThread, project_settings: Json, messages: Sequence[StoredMessage]
    ) -> Sequence[StoredMessage]:
        if self._fails:
            raise LookupError(thread.thread_id)
        self.project_settings, self.messages = project_settings, messages
        body: Json = {"content": "Hello"}
        return [StoredMessage(number=0, turn_id=thread.running, role="user", body=body)]


@pytest.mark.anyio
class ThreadContract(StoreFixtures):
    """Chat threads, their messages, and stored prompts."""

    async def test_one_turn_at_a_time_has_a_thread(self, store: Store, other: Store) -> None:
        """From any process; a turn that is not renewed loses it."""
        lease = await store.threads.begin_turn(
            sample_thread("t1"), turn_id="one", until=minute_at(30), now=minute_at(1)
        )
        assert (lease.thread_id, lease.running, lease.used_at) == ("t1", "one", minute_at(1))
        same = await other.threads.begin_turn(
            sample_thread("t2"), turn_id="two", until=minute_at(40), now=minute_at(2)
        )
        assert (same.thread_id, same.running) == ("t1", "one")
        over = await other.threads.begin_turn(
            sample_thread("t2"), turn_id="two", until=minute_at(40), now=minute_at(3), over="one"
        )
        assert over.running == "two"
        assert not await store.threads.extend_turn("t1", turn_id="one", until=minute_at(50))
        assert await store.threads.extend_turn("t1", turn_id="two", until=minute_at(50))
        late = await store.threads.begin_turn(
            sample_thread("t3"), turn_id="three", until=minute_at(59), now=minute_at(51)
        )
        assert (late.thread_id, late.running) == ("t1", "three")
        await store.threads.append_messages("t1", (), ends="two", now=minute_at(52))
        thread = await other.threads.get(SAMPLE_PROJECT, "local", HOSTILE)
        assert thread is not None
        assert thread.running == "three"  # only its own end sets it free
        await store.threads.append_messages("t1", (), ends="three", now=minute_at(53))
        assert (await other.threads.select(SAMPLE_PROJECT, "local"))[0].running == ""

    async def test_a_turn_begins_with_all_it_needs_or_not_at_all(
        self, store: Store, other: Store
    ) -> None:
        """Claim, reads and first messages are one transaction."""
        of_project = replace(sample_thread("p"), caller_id=PROJECT_THREAD, name=PROJECT_THREAD)
        await store.threads.save_settings(of_project, {"top_k": 3}, now=minute_at(0))
        await store.threads.save_settings(sample_thread("t1"), {}, now=minute_at(0))
        await append_turn(store, "t1", "before")

        async def begin(opening: _Opening, turn_id: str) -> str:
            thread = await other.threads.begin_turn(
                sample_thread("t2"),
                turn_id=turn_id,
                until=minute_at(30),
                now=minute_at(1),
                opening=opening,
            )
            return thread.running

        with pytest.raises(LookupError):
            await begin(_Opening(fails=True), "failed")
        first, second = _Opening(), _Opening()
        assert await begin(first, "first") == "first"
        assert await begin(second, "second") == "first"
        stored = await store.threads.messages("t1")

        assert (first.project_settings, second.project_settings) == ({"top_k": 3}, None)
        assert [message.turn_id for message in first.messages] == ["before"]
        assert first.messages[0].number == 2
        assert [message.turn_id for message in stored] == ["before", "before", "first"]

    async def test_messages_are_numbered_in_the_order_in_which_they_are_kept(
        self, store: Store, other: Store
    ) -> None:
        """Without gaps and duplicates, even with concurrent writers."""
        await store.threads.begin_turn(
            sample_thread("t1"), turn_id="one", until=minute_at(30), now=minute_at(1)
        )
        async with create_task_group() as group:
            for number in range(6):
                group.start_soon(append_turn, (store, other)[number % 2], "t1", f"turn{number}")

        messages = await store.threads.messages("t1")
        assert [message.number for message in messages] == [*range(1, 13)]
        for question, answer in zip(messages[::2], messages[1::2], strict=True):
            assert (question.role, answer.role) == ("user", "assistant")
            assert question.turn_id == answer.turn_id
        assert {message.turn_id for message in messages} == {f"turn{number}" for number in range(6)}
        assert messages[0].body == {"content": HOSTILE, "calls": [{"id": "c", "n": 1.5}]}
        assert messages[0].notes == {"policy": "keep"}

    async def test_a_page_of_messages_has_the_newest_before_a_number(self, store: Store) -> None:
        """Oldest first; all of them without a limit."""
        await store.threads.begin_turn(
            sample_thread("t1"), turn_id="one", until=minute_at(30), now=minute_at(1)
        )
        for number in range(5):
            await append_turn(store, "t1", f"turn{number}")

        async def numbers(**filters: int) -> list[int]:
            return [message.number for message in await store.threads.messages("t1", **filters)]

        assert await numbers() == [*range(1, 11)]
        assert await numbers(limit=3) == [8, 9, 10]
        assert await numbers(limit=3, before=8) == [5, 6, 7]
        assert await numbers(after=8) == [9, 10]
        assert await numbers(after=2, before=5) == [3, 4]
        assert await numbers(before=1, limit=3) == []

    async def test_what_a_turn_made_and_spent_comes_back(self, store: Store) -> None:
        """Even if written in several parts; deleting a turn keeps its costs."""
        await store.threads.begin_turn(
            sample_thread("t1"), turn_id="one", until=minute_at(30), now=minute_at(1)
        )
        messages = [
            StoredArtifact(artifact_id=f"a{n}", turn_id="one", body={"text": HOSTILE, "n": n})
            for n in range(2)
        ]
        cost = StoredSpending(
            turn_id="one",
            purpose="answer",
            model="main",
            prompt_tokens=10,
            completion_tokens=2,
            cached_tokens=1,
            cost=0.25,
            is_estimate=True,
            at=minute_at(2),
        )
        state = {"tools": ["git:log"], "pending": {"turn_id": "one"}}
        await append_turn(store, "t1", "one", artifacts=messages[:1], spending=[cost])
        await append_turn(
            store, "t1", "one", artifacts=messages, spending=[cost, cost], state=state
        )

        assert await store.threads.artifacts("t1", ["a1", "a0", "a2"]) in (messages, messages[::-1])
        assert await store.threads.artifacts("t1", []) == []
        assert await store.threads.spending("t1") == [cost] * 3
        thread = await store.threads.get(SAMPLE_PROJECT, "local", HOSTILE)
        assert thread is not None
        assert (thread.state, thread.last_number) == (state, 4)
        assert await store.threads.drop_turn("t1", "one") == 4
        assert await store.threads.messages("t1") == []
        assert await store.threads.artifacts("t1", ["a0"]) == []
        assert len(await store.threads.spending("t1")) == 3

    async def test_a_thread_can_be_forgotten_and_keeps_what_was_set(self, store: Store) -> None:
        """Or it can be deleted with its contents."""
        settings = {"retrieval": "forced", "text": HOSTILE}
        saved = await store.threads.save_settings(sample_thread("t1"), settings, now=minute_at(1))
        assert saved.settings == settings
        await append_turn(store, "t1", "one", state={"from": 1})
        assert await store.threads.clear("t1", now=minute_at(2)) == 2
        thread = await store.threads.get(SAMPLE_PROJECT, "local", HOSTILE)
        assert thread is not None
        assert (thread.settings, thread.state, thread.thread_id) == (settings, {}, "t1")
        assert await store.threads.get(SAMPLE_PROJECT, "other", HOSTILE) is None
        assert await store.threads.delete("t1")
        assert not await store.threads.delete("t1")
        assert await store.threads.select(SAMPLE_PROJECT, None) == []

    async def test_threads_of_single_responses_are_left_out_and_kept_for_a_shorter_time(
        self, store: Store
    ) -> None:
        """By the start of their names, with case."""
        names = (f"{RESPONSE_PREFIX}1", "Response-2", "response", "mine")
        for number, name in enumerate(names):
            thread = replace(sample_thread(f"t{number}"), name=name)
            await store.threads.begin_turn(
                thread, turn_id="one", until=minute_at(number), now=minute_at(number)
            )
        select = store.threads.select
        assert len(await select(SAMPLE_PROJECT, "local")) == 4
        named = await select(SAMPLE_PROJECT, "local", with_responses=False, limit=3)
        assert [thread.name for thread in named] == ["mine", "response", "Response-2"]
        retention = Retention(thread_days=40_000, response_days=0)
        assert await store.prune(retention, now=minute_at(30)) == PrunedCounts(threads=1)
        assert len(await select(SAMPLE_PROJECT, "local")) == 3

    async def test_texts_of_prompts_are_kept_in_every_version(self, store: Store) -> None:
        """All versions of a prompt, oldest first; the last version of all prompts."""
        versions = [
            StoredPrompt(
                project_id=SAMPLE_PROJECT,
                name=name,
                version=version,
                text=text,
                changed_at=minute_at(version),
                changed_by="anna",
            )
            for name, version, text in (
                ("basic", 1, HOSTILE),
                ("basic", 2, None),
                ("rules", 1, ""),
            )
        ]
        for version in versions:
            await store.prompts.add(version)
        assert await store.prompts.versions(SAMPLE_PROJECT, "basic") == versions[:2]
        assert await store.prompts.versions(SAMPLE_PROJECT, None) == versions[1:]
        assert await store.prompts.versions("other", None) == []
