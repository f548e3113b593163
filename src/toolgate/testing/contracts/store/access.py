"""The store contract for projects, tokens, permissions, guards and console sessions."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import anyio
import anyio.from_thread
import pytest

from toolgate.errors import StoreError
from toolgate.store import (
    CallGrant,
    DayUsage,
    FullLimit,
    SqlAccess,
    Store,
    StoredGuard,
    StoredPermission,
    StoredProject,
    StoredToken,
    store_deadline,
)
from toolgate.testing.contracts._limits import HANG_S
from toolgate.testing.contracts.store.fixtures import StoreFixtures
from toolgate.testing.contracts.store.samples import (
    HOSTILE,
    NOW,
    minute_at,
    sample_server,
    sample_session,
    sample_token,
)
from toolgate.types import DEFAULT_PROJECT


@pytest.mark.anyio
class AccessContract(StoreFixtures):
    """Projects, tokens, permissions, guards and console sessions."""

    async def test_projects_come_back_with_what_they_set(self, store: Store) -> None:
        """Saving again replaces the settings; the default project always exists."""
        await store.projects.save(StoredProject(project_id="shop", settings={"read_only": True}))
        await store.projects.save(StoredProject(project_id="shop", settings={"note": HOSTILE[1:9]}))

        projects = {project.project_id: project for project in await store.projects.list_all()}
        assert set(projects) == {DEFAULT_PROJECT, "shop"}
        assert projects["shop"].settings == {"note": HOSTILE[1:9]}
        assert projects["shop"].created_at

    async def test_references_are_no_projects(self, store: Store) -> None:
        """A project of a file has a row only so that other rows can refer to it."""
        await store.projects.add_references(["tools", HOSTILE])
        await store.projects.add_references(["tools"])
        assert [project.project_id for project in await store.projects.list_all()] == [
            DEFAULT_PROJECT
        ]
        await store.projects.save(StoredProject(project_id="tools", settings={"read_only": True}))
        await store.projects.add_references(["tools"])
        [_, saved] = await store.projects.list_all()
        assert (saved.project_id, saved.settings) == ("tools", {"read_only": True})
        assert await store.projects.delete(HOSTILE)

    async def test_what_nobody_waits_for_any_more_is_not_kept(self, store: Store) -> None:
        """Callers who were told that nothing was saved can rely on it."""
        assert isinstance(store, SqlAccess)
        go_on = threading.Event()

        def insert(driver: Any) -> None:
            driver.execute(
                "INSERT INTO projects (project_id, created_at) VALUES ('late', '2026-07-28')"
            )

        def insert_late(driver: Any) -> None:
            insert(driver)
            go_on.wait(60)

        with anyio.fail_after(HANG_S):
            with store_deadline(0.5) as waited, pytest.raises(StoreError, match="did not answer"):
                await store.writing(insert_late)
            go_on.set()
            assert waited.was_slow
            assert not waited.has_saved
            assert not waited.may_have_saved
            with store_deadline(60) as waited:
                try:
                    await store.writing(insert)  # waits for the one before, if that is not over
                except StoreError:
                    pytest.fail("it was kept")
                await store.projects.list_all()
            assert waited.has_saved
            assert not waited.was_slow

    async def test_a_cancelled_caller_with_a_deadline_loses_no_write(self, store: Store) -> None:
        """What was begun is finished and committed, as without a deadline."""
        assert isinstance(store, SqlAccess)
        begun, go_on = anyio.Event(), threading.Event()

        def insert(driver: Any) -> None:
            driver.execute(
                "INSERT INTO projects (project_id, created_at) VALUES ('late', '2026-07-28')"
            )
            anyio.from_thread.run_sync(begun.set)
            go_on.wait(HANG_S)

        async def save() -> None:
            with store_deadline(HANG_S, each=True):
                await store.writing(insert)

        saving = asyncio.ensure_future(save())
        with anyio.fail_after(HANG_S):
            await begun.wait()
            saving.cancel()
            await asyncio.wait({saving})
            go_on.set()
            with pytest.raises(StoreError):  # it waits for the one before, which has the same id
                await store.writing(insert)

    async def test_a_deadline_does_not_grow_with_what_was_saved(self, store: Store) -> None:
        """Streams save for hours."""
        with store_deadline(HANG_S, each=True) as waited:
            for _ in range(20):
                await store.projects.save(StoredProject(project_id="shop"))
            assert waited.has_saved
            assert len(waited.unsettled) <= 1

    async def test_a_project_goes_with_its_servers(self, store: Store) -> None:
        """Deleting says whether it existed."""
        await store.projects.save(StoredProject(project_id="shop"))
        await store.servers.save(sample_server("git", project_id="shop"))

        assert await store.projects.delete("shop")
        assert not await store.projects.delete("shop")
        assert await store.servers.select(None) == []

    async def test_tokens_come_back_as_they_were(self, store: Store) -> None:
        """All fields; saving again replaces by id."""
        token = StoredToken(
            token_id="t1",  # noqa: S106
            name="anna",
            prefix="tg_abc",
            digest="0" * 64,
            user="anna@example.org",
            projects=("shop", "*"),
            roles=("member",),
            groups=("g",),
            read_only=True,
            limits={"calls_per_minute": 5},
            created_at=NOW,
            expires_at=NOW,
            rotated_at=NOW,
            old_digest="1" * 64,
            old_until=NOW,
            last_used_at=NOW,
        )
        await store.access.save_token(token)
        assert await store.access.tokens() == [token]

        changed = replace(token, name="ben", revoked_at=NOW, limits={})
        await store.access.save_token(changed)
        await store.access.touch_tokens({"t1": "2030-01-01T00:00:00.000Z", "nobody": NOW})

        (stored,) = await store.access.tokens()
        assert stored == replace(changed, last_used_at="2030-01-01T00:00:00.000Z")
        assert await store.access.delete_token("t1")
        assert not await store.access.delete_token("t1")

    async def test_a_name_of_a_token_is_taken_once(self, store: Store) -> None:
        """Rules refer to tokens by name."""
        await store.access.save_token(sample_token("t1", "anna"))

        with pytest.raises(StoreError):
            await store.access.save_token(sample_token("t2", "anna"))

    async def test_permissions_come_back_oldest_first(self, store: Store) -> None:
        """They are deleted by id."""
        rules = [
            StoredPermission(
                permission_id=f"p{number}",
                effect="deny" if number else "allow",
                who="role:dev",
                kind="tool",
                pattern="git:*",
                hint="read_only",
                created_at=NOW,
            )
            for number in range(3)
        ]
        await store.access.save_permissions(rules[::-1])
        await store.access.save_permissions([])

        assert await store.access.permissions() == rules
        assert await store.access.delete_permissions(["p0", "p2", "nothing"]) == 2
        assert await store.access.permissions() == rules[1:2]

    async def test_guards_come_back_oldest_first(self, store: Store) -> None:
        """They are deleted by id; a second time nothing exists."""
        guards = [
            StoredGuard(guard_id=f"g{number}", settings={"reason": HOSTILE[1:9]}, created_at=NOW)
            for number in range(3)
        ]
        for guard in guards[::-1]:
            await store.access.save_guard(guard)

        assert await store.access.guards() == guards
        assert await store.access.delete_guards(["g0", "g2", "nothing"]) == 2
        assert await store.access.delete_guards(["g0"]) == 0
        assert await store.access.guards() == guards[1:2]

    async def test_sessions_come_back_as_they_were_the_last_used_first(self, store: Store) -> None:
        """All fields, including the encrypted bytes; saving again replaces by id."""
        old, new = sample_session("s1", 1), sample_session("s2", 2, name=HOSTILE, agent=HOSTILE)
        await store.sessions.save(old)
        await store.sessions.save(new)
        assert await store.sessions.list_all() == [new, old]
        assert await store.sessions.get("s2") == new
        assert await store.sessions.get("s3") is None

        changed = replace(old, sealed=b"", address="::1")
        await store.sessions.save(changed)
        assert await store.sessions.get("s1") == changed
        assert len(await store.sessions.list_all()) == 2

    async def test_a_session_lives_on_by_being_used_until_it_is_removed(self, store: Store) -> None:
        """A deleted session is not restored by a touch."""
        await store.sessions.save(sample_session("s1", 1))
        assert await store.sessions.touch("s1", seen_at=minute_at(5), expires_at=minute_at(6))
        session = await store.sessions.get("s1")
        assert session == replace(
            sample_session("s1", 1), seen_at=minute_at(5), expires_at=minute_at(6)
        )
        assert await store.sessions.delete("s1")
        assert not await store.sessions.delete("s1")
        assert not await store.sessions.touch("s1", seen_at=minute_at(7), expires_at=minute_at(8))
        assert await store.sessions.list_all() == []

    async def test_every_change_of_access_is_counted(self, store: Store) -> None:
        """Replicas compare the number to know when to reload."""
        versions = [await store.access.version()]
        for change in (
            store.projects.save(StoredProject(project_id="shop")),
            store.servers.save(sample_server("git", project_id="shop")),
            store.access.save_token(sample_token("t1", "anna")),
            store.access.save_permissions(
                [
                    StoredPermission(
                        permission_id="p1", effect="allow", who="everyone", kind="any", pattern="*"
                    )
                ]
            ),
            store.access.delete_permissions(["p1"]),
            store.access.save_guard(StoredGuard(guard_id="g1", settings={}, created_at=NOW)),
            store.access.delete_guards(["g1"]),
            store.access.delete_token("t1"),
            store.projects.delete("shop"),
        ):
            await change
            versions.append(await store.access.version())

        assert versions == sorted(set(versions))
        await store.access.touch_tokens({"t1": NOW})
        assert await store.access.version() == versions[-1]

    async def test_use_of_a_day_adds_up(self, store: Store) -> None:
        """By name; adding nothing reads, and past days are deleted."""
        day, odd = "2026-07-28", HOSTILE
        used = {"a": DayUsage(calls=1, tokens=5), odd: DayUsage(calls=2)}
        assert await store.access.add_day_usage(day, used) == used
        totals = await store.access.add_day_usage(day, {"a": DayUsage(tokens=4), "b": DayUsage()})
        assert totals == {"a": DayUsage(calls=1, tokens=9)}
        await store.access.add_day_usage("2026-07-30", {"a": DayUsage(calls=1)})
        assert await store.access.add_day_usage(day, {"a": DayUsage()}) == {}

    async def test_a_bucket_of_calls_refills_all_the_time(self, store: Store) -> None:
        """It holds the calls of a minute; a clock that is behind refills nothing."""

        async def take(up_to: int, now_s: float) -> CallGrant:
            return await store.access.take_calls(HOSTILE, per_minute=6, up_to=up_to, now_s=now_s)

        assert (await take(4, 1000.0)).calls == 4
        assert (await take(4, 1000.0)).calls == 2
        assert await take(1, 1000.0) == CallGrant(calls=0, wait_s=10.0)
        assert (await take(1, 990.0)).calls == 0
        assert (await take(9, 1020.0)).calls == 2
        assert (await take(9, 5000.0)).calls == 6

    async def test_slots_of_running_calls_are_shared_until_they_expire(self, store: Store) -> None:
        """All slots of a call or none; released when it ends, or when they are not renewed."""
        limits = {HOSTILE: 2, "tool:a": 1}

        async def take(call_id: str, lease_s: float = 600.0, **own: int) -> FullLimit | None:
            return await store.access.take_slots(own or limits, call_id=call_id, lease_s=lease_s)

        assert await take("first") is None
        assert await take("second") == FullLimit(name="tool:a", running=1)
        assert await store.access.take_slots({HOSTILE: 2}, call_id="second", lease_s=600.0) is None
        await store.access.free_slots(["first", "nothing"])
        assert await take("third") is None
        assert await store.access.take_slots(
            {HOSTILE: 2}, call_id="fourth", lease_s=600.0
        ) == FullLimit(name=HOSTILE, running=2)

        await store.access.renew_slots(["third", "nothing"], lease_s=0.0)
        assert await take("fifth", lease_s=0.0) is None
        assert await take("sixth") is None
        await store.access.free_slots([])
        await store.access.renew_slots(["fifth"], lease_s=600.0)
        await store.access.free_slots(["sixth"])
        assert await take("seventh") is None
