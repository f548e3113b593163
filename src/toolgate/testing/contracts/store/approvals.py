"""The store contract for calls that wait for approval."""

from dataclasses import replace

import pytest
from anyio import create_task_group

from toolgate.store import (
    ApprovalFilter,
    PrunedCounts,
    Retention,
    Store,
)
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import (
    HOSTILE,
    NOW,
    SAMPLE_PROJECT,
    decide_approval,
    sample_approval,
    sample_program,
)


@pytest.mark.anyio
class ApprovalContract(StoreFixtures):
    """Calls that wait for approval."""

    async def test_of_many_that_park_one_call_all_get_the_same_approval(
        self, store: Store, other: Store
    ) -> None:
        """A model repeats an undecided call: people see it once."""
        approval_ids: list[str] = []

        async def park(where: Store, number: int) -> None:
            approval_ids.append(
                (await where.approvals.add_or_get(sample_approval(number))).approval_id
            )

        async with create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(park, (store, other)[number % 2], number)
        assert len(set(approval_ids)) == 1
        assert len(await store.approvals.select(ApprovalFilter(), now=NOW)) == 1

    async def test_an_approval_is_decided_once_and_taken_once(
        self, store: Store, other: Store
    ) -> None:
        """Of a hundred concurrent decisions one counts, of a hundred calls one runs."""
        await store.approvals.add_or_get(sample_approval(1))
        decided: list[bool] = []
        taken: list[bool] = []

        async def decide(where: Store) -> None:
            decided.append(await decide_approval(where, "a1", "approved"))

        async def take(where: Store) -> None:
            taken.append(await where.approvals.claim("a1", step=0, now=NOW))

        for work in (decide, take):
            async with create_task_group() as tasks:
                for number in range(100):
                    tasks.start_soon(work, (store, other)[number % 2])
        assert sum(decided) == sum(taken) == 1
        assert [await store.approvals.claim("a1", step=1, now=NOW) for _ in range(2)] == [
            True,
            False,
        ]
        assert not await decide_approval(store, "a1", "rejected")

    async def test_approvals_come_back_as_they_were_newest_first(self, store: Store) -> None:
        """With any texts, and with their current state."""
        for number in (1, 2, 3):
            draft = sample_approval(number, binding=f"b{number}", arguments=HOSTILE, tool=HOSTILE)
            assert await store.approvals.add_or_get(draft) == draft
        assert await decide_approval(store, "a2", "rejected")
        approvals = await store.approvals.select(ApprovalFilter(), now=NOW)
        assert [approval.approval_id for approval in approvals] == ["a3", "a2", "a1"]
        assert (approvals[0].arguments, approvals[1].comment) == (HOSTILE, HOSTILE)
        assert await store.approvals.get("a3", now=NOW) == approvals[0]
        assert await store.approvals.get("none", now=NOW) is None
        for wanted_ones, ids in (
            (ApprovalFilter(state="waiting"), ["a3", "a1"]),
            (ApprovalFilter(state="rejected"), ["a2"]),
            (ApprovalFilter(after="a3", limit=1), ["a2"]),
            (ApprovalFilter(caller_id="nobody"), []),
            (ApprovalFilter(project_id=SAMPLE_PROJECT, caller_id="local"), ["a3", "a2", "a1"]),
        ):
            approvals = await store.approvals.select(wanted_ones, now=NOW)
            assert [approval.approval_id for approval in approvals] == ids

    async def test_an_approval_expires_and_makes_room_for_the_next(self, store: Store) -> None:
        """An unused approval expires, and is deleted after a month."""
        first = sample_approval(1)
        await store.approvals.add_or_get(first)
        late = "2026-07-28T14:00:00.000Z"
        assert (await store.approvals.get("a1", now=late) or first).state == "expired"
        assert not await store.approvals.claim("a1", step=0, now=late)
        following = sample_approval(2, created_at=late, expires_at="2026-07-28T15:00:00.000Z")
        assert (await store.approvals.add_or_get(following)).approval_id == "a2"
        pruned = await store.prune(Retention(), now="2026-09-28T14:00:00.000Z")
        assert pruned.approvals == 2

    async def test_programs_come_back_by_id(self, store: Store) -> None:
        """Any bytes; the last version counts, and unknown ids return None."""
        program = sample_program("one", caller_id=HOSTILE, body=bytes(range(256)) * 40)
        await store.approvals.programs.save(replace(program, body=b"before"))
        await store.approvals.programs.save(program)

        assert await store.approvals.programs.get("one") == program
        assert await store.approvals.programs.get(HOSTILE) is None
        await store.approvals.programs.remove("one")
        await store.approvals.programs.remove("one")
        assert await store.approvals.programs.get("one") is None

    async def test_programs_are_listed_newest_first(self, store: Store) -> None:
        """Of one caller or of all, and none that has expired."""
        programs = store.approvals.programs
        await programs.save(sample_program("old", created_at="2026-07-28T10:00:00.000Z"))
        await programs.save(sample_program("new"))
        await programs.save(sample_program("other", caller_id=HOSTILE))
        await programs.save(sample_program("gone", expires_at=NOW))

        everybody = await programs.select(caller_id=None, now=NOW, limit=9)
        assert [one.program_id for one in everybody] == ["new", "other", "old"]
        own = await programs.select(caller_id=HOSTILE, now=NOW, limit=9)
        assert [one.program_id for one in own] == ["other"]

    async def test_of_many_one_takes_a_program(self, store: Store) -> None:
        """Until it waits again."""
        await store.approvals.programs.save(sample_program("one"))
        taken: list[bool] = []

        async def claim() -> None:
            taken.append(await store.approvals.programs.claim("one", now=NOW))

        async with create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(claim)
        assert sorted(taken) == [False] * 9 + [True]
        await store.approvals.programs.save(sample_program("one"))
        assert await store.approvals.programs.claim("one", now=NOW)
        assert not await store.approvals.programs.claim(HOSTILE, now=NOW)

    async def test_an_id_is_given_once_while_its_program_waits(self, store: Store) -> None:
        """However many add one with it at the same time, and until it has expired."""
        programs = store.approvals.programs
        added: list[bool] = []

        async def add() -> None:
            added.append(await programs.add(sample_program("one"), now=NOW))

        async with create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(add)
        assert sorted(added) == [False] * 9 + [True]
        assert await programs.claim("one", now=NOW)
        assert not await programs.add(sample_program("one"), now=NOW)
        await programs.save(sample_program("one", expires_at=NOW))
        assert await programs.add(sample_program("one", body=b"new"), now=NOW)
        assert (await programs.get("one") or sample_program("none")).body == b"new"

    async def test_of_several_programs_the_one_that_waits_longest_comes_first(
        self, store: Store
    ) -> None:
        """None that runs, has expired, or was not asked for."""
        programs = store.approvals.programs
        await programs.save(sample_program("a"))
        await programs.save(sample_program("b", created_at="2026-07-28T10:00:00.000Z"))
        await programs.save(sample_program("c", created_at="2026-07-28T09:00:00.000Z"))
        await programs.save(sample_program("gone", expires_at=NOW))

        assert await programs.first_waiting(["a", "b", "gone", HOSTILE], now=NOW) == "b"
        assert await programs.claim("b", now=NOW)
        assert await programs.first_waiting(["a", "b", "gone"], now=NOW) == "a"
        assert await programs.first_waiting(["gone", "none"], now=NOW) is None

    async def test_expired_programs_are_not_taken_and_go(self, store: Store) -> None:
        """Programs that are still waiting stay."""
        await store.approvals.programs.save(
            sample_program("old", expires_at="2026-07-28T11:59:00.000Z")
        )
        await store.approvals.programs.save(sample_program("new"))

        assert not await store.approvals.programs.claim("old", now=NOW)
        assert await store.prune(Retention(), now=NOW) == PrunedCounts(programs=1)
        assert await store.approvals.programs.get("old") is None
        assert await store.approvals.programs.get("new") is not None
