"""What every store must do, run against yours.

Example:
    ```python
    class TestMine(StoreContract):
        @pytest.fixture
        def store_url(self, tmp_path: Path) -> str:
            return f"sqlite:///{tmp_path / 'toolgate.db'}"
    ```
"""

import json
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio import create_task_group
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolgate.base.ids import new_id
from toolgate.errors import StoreError
from toolgate.store import (
    ApprovalFilter,
    AuditFilter,
    CredentialKey,
    DetectionFilter,
    PrunedCounts,
    Retention,
    SqlAccess,
    Store,
    StoredApproval,
    StoredArtifact,
    StoredCredential,
    StoredDetection,
    StoredGuard,
    StoredMessage,
    StoredPermission,
    StoredProject,
    StoredPrompt,
    StoredResult,
    StoredSchema,
    StoredSearch,
    StoredServer,
    StoredSession,
    StoredSnapshot,
    StoredSpending,
    StoredStatement,
    StoredThread,
    StoredToken,
    StoredUse,
    StoreMaintenance,
    ToolFingerprint,
    ToolVersion,
    UsageEntry,
    UsageFilter,
    WrappedKey,
    make_store,
    store_deadline,
)
from toolgate.testing.contracts._limits import HANG_S
from toolgate.types import DEFAULT_PROJECT, AuditRecord

__all__ = ["StoreContract", "audit_records", "sample_record"]

HOSTILE = "\x00 \x1a0000 \ud800 é 🚀 '\"; DROP TABLE audit; --"
"""What a client may send as the value of any text."""

NOW = "2026-07-28T12:00:00.000Z"

_texts = st.text(st.characters(), max_size=50)
_sizes = st.none() | st.integers(min_value=0, max_value=2**63 - 1)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)

audit_records = st.builds(
    AuditRecord,
    record_id=st.builds(new_id),
    at=_texts,
    action=_texts,
    phase=st.sampled_from(("intent", "outcome")),
    parent_id=st.none() | _texts,
    project_id=_texts,
    caller_id=_texts,
    client=_texts,
    conversation=_texts,
    request_id=_texts,
    server=st.none() | _texts,
    target=st.none() | _texts,
    digest=st.none() | _texts,
    query=st.none() | _texts,
    status=_texts,
    duration_ms=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    request_bytes=_sizes,
    response_bytes=_sizes,
    arguments_sha256=st.none() | _texts,
    response_sha256=st.none() | _texts,
    detail=st.dictionaries(_texts, _json, max_size=4),
)
"""Any record that types allow, text that no database likes included."""


def sample_record(minute: int = 0, **changes: object) -> AuditRecord:
    """A plain record of one minute of a fixed day."""
    record = AuditRecord(
        record_id=f"{minute:032x}",
        at=f"2026-07-28T{minute // 60:02d}:{minute % 60:02d}:00.000Z",
        action="call",
        server="git",
        target="git:log",
    )
    return replace(record, **changes)


def _token(token_id: str, name: str) -> StoredToken:
    return StoredToken(token_id=token_id, name=name, prefix="tg_", digest="0" * 64)


def _credential(subject: str) -> StoredCredential:
    key = CredentialKey(project_id=DEFAULT_PROJECT, server="git", subject=subject, kind="login")
    return StoredCredential(key=key, key_id="k1", sealed=bytes(range(256)))


def _at(minute: int) -> str:
    return f"2026-07-28T12:{minute:02}:00.000Z"


def _session(session_id: str, minute: int, **changes: object) -> StoredSession:
    session = StoredSession(
        session_id=session_id,
        caller_id="token:t1",
        name="anna",
        sealed=bytes(range(256)),
        created_at=_at(0),
        seen_at=_at(minute),
        expires_at=_at(minute + 1),
        address="127.0.0.1",
        agent="a browser",
    )
    return replace(session, **changes)


def _server(name: str, **changes: object) -> StoredServer:
    server = StoredServer(
        server_id=new_id(), project_id=DEFAULT_PROJECT, name=name, config={"command": "git"}
    )
    return replace(server, **changes)


def _snapshot(server: str, **changes: object) -> StoredSnapshot:
    snapshot = StoredSnapshot(
        project_id=DEFAULT_PROJECT,
        server=server,
        listing=b'{"tools":[]}' * 100,
        digest="one",
        listed_at=NOW,
    )
    return replace(snapshot, **changes)


def _result(handle: str, **changes: object) -> StoredResult:
    result = StoredResult(
        handle=handle,
        project_id=DEFAULT_PROJECT,
        caller_id="local",
        body=b"text",
        expires_at="2026-07-28T13:00:00.000Z",
    )
    return replace(result, **changes)


def _search(minute: int, **changes: object) -> StoredSearch:
    search = StoredSearch(
        search_id=f"{minute:032x}",
        at=f"2026-07-28T{minute // 60:02d}:{minute % 60:02d}:00.000Z",
        project_id=DEFAULT_PROJECT,
        caller_id="local",
        model="bundled",
        vector=bytes(range(256)) * 2,
        shown=(("git:log", 0.75), (HOSTILE, 0.25)),
        margin=0.5,
    )
    return replace(search, **changes)


def _detection(minute: int, **changes: object) -> StoredDetection:
    detection = StoredDetection(
        detection_id=f"{minute:032x}",
        at=f"2026-07-28T{minute // 60:02d}:{minute % 60:02d}:00.000Z",
        project_id=DEFAULT_PROJECT,
        caller_id="local",
        door="detect",
        outcome="found",
        stage="semantic",
        intent="refunds",
        confidence=0.75,
    )
    return replace(detection, **changes)


def _seen(tool: str, **changed: Any) -> ToolFingerprint:
    values: dict[str, Any] = {
        "project_id": DEFAULT_PROJECT,
        "server": "git",
        "digest": "d",
        "definition": b'{"name":"log"}',
        "accepted_digest": "d",
        "accepted": b'{"name":"log"}',
        "seen_at": NOW,
    }
    return ToolFingerprint(tool=tool, **values | changed)


def _version(number: int, **changes: object) -> StoredSchema:
    version = StoredSchema(
        project_id=DEFAULT_PROJECT,
        connection="shop",
        number=number,
        digest=f"d{number}",
        at=f"2026-07-{number:02d}T12:00:00.000Z",
        seen_at=f"2026-07-{number:02d}T12:00:00.000Z",
        content=b'{"tables":[]}',
        changes=b"[]",
    )
    return replace(version, **changes)


def _use(minute: int, of: int, **changes: object) -> StoredUse:
    use = StoredUse(
        use_id=f"{minute:032x}",
        search_id=f"{of:032x}",
        at=f"2026-07-28T{minute // 60:02d}:{minute % 60:02d}:00.000Z",
        project_id=DEFAULT_PROJECT,
        tool="git:log",
        outcome="ok",
    )
    return replace(use, **changes)


@pytest.mark.anyio
class StoreContract:
    """The duties in `Store` and `StoreMaintenance`, one test each; all are decisions of ours."""

    @pytest.fixture
    def store_url(self) -> str:
        """Address of an empty place, a new one for each test; every subclass says which."""
        raise NotImplementedError

    @pytest.fixture
    def make(self, store_url: str) -> Callable[[], Store]:
        """Builds one more store on the same place."""
        return lambda: make_store(store_url)

    @pytest.fixture
    async def store(self, make: Callable[[], Store]) -> AsyncGenerator[Store]:
        """The store under test, open."""
        store = make()
        await store.open()
        yield store
        await store.close()

    @pytest.fixture
    async def other(
        self,
        make: Callable[[], Store],
        store: Store,  # noqa: ARG002 - opened first
    ) -> AsyncGenerator[Store]:
        """A second store on the same place, as another process would have it."""
        other = make()
        await other.open()
        yield other
        await other.close()

    # Opening

    async def test_it_satisfies_the_protocols(self, store: Store) -> None:
        """`plugins.make` refuses what does not."""
        assert isinstance(store, Store)
        assert isinstance(store, StoreMaintenance)

    async def test_a_new_store_is_empty(self, store: Store) -> None:
        """Nothing but the default project."""
        sizes = await store.sizes()

        assert sizes.pop("total") > 0
        assert sizes.pop("projects") == 1
        assert set(sizes.values()) == {0}

    async def test_what_was_kept_is_there_after_opening_again(
        self, store: Store, make: Callable[[], Store]
    ) -> None:
        """Closing twice does nothing."""
        await store.append_audit([sample_record()])
        await store.close()
        await store.close()

        again = make()
        await again.open()
        assert await again.audit(AuditFilter()) == [sample_record()]
        await again.close()

    async def test_several_may_open_a_new_place_at_once(self, make: Callable[[], Store]) -> None:
        """Replicas are started together."""
        stores = [make() for _ in range(4)]

        async with create_task_group() as group:
            for store in stores:
                group.start_soon(store.open)

        for store in stores:
            assert (await store.sizes())["projects"] == 1
            await store.close()

    # Credentials

    async def test_credentials_come_back_and_change_only_over_the_version_that_was_read(
        self, store: Store, other: Store
    ) -> None:
        """Two processes that renew one login must not both be right."""
        credential = _credential("user:" + HOSTILE)
        assert await store.save_credential(credential, over=0)
        assert not await other.save_credential(credential, over=0)
        stored = await other.credential(credential.key)
        assert stored is not None
        assert (stored.key, stored.sealed, stored.version) == (credential.key, credential.sealed, 1)
        assert await other.save_credential(replace(credential, sealed=b"new"), over=1)
        assert not await store.save_credential(replace(credential, sealed=b"late"), over=1)
        assert [row.sealed for row in await store.credentials("git")] == [b"new"]
        assert await store.credential(_credential("user:nobody").key) is None

    async def test_a_credential_is_renewed_by_one_until_it_is_written_or_too_late(
        self, store: Store, other: Store
    ) -> None:
        """A lease of somebody who died ends by itself."""
        credential = _credential("user:anna")
        await store.save_credential(credential)
        assert await store.lease_credential(credential.key, "a", _at(5), _at(0))
        assert await store.lease_credential(credential.key, "a", _at(6), _at(0))
        assert not await other.lease_credential(credential.key, "b", _at(9), _at(1))
        assert await other.lease_credential(credential.key, "b", _at(9), _at(7))
        await store.save_credential(credential)
        assert await store.lease_credential(credential.key, "a", _at(9), _at(0))

    async def test_credentials_are_removed_by_what_is_given(self, store: Store) -> None:
        """And each removal counts as a change that others look for."""
        for subject in ("user:anna", "user:ben"):
            await store.save_credential(_credential(subject))
        before = await store.access_version()
        assert await store.delete_credentials("git", subject="user:anna", kind="login") == 1
        assert await store.access_version() > before
        assert await store.delete_credentials("git", before=_at(0)) == 0
        assert await store.delete_credentials("git") == 1
        assert await store.credentials() == []

    async def test_the_first_key_is_made_once_and_keys_in_use_stay(
        self, store: Store, other: Store
    ) -> None:
        """What was encrypted with a key that is gone would be lost."""
        first, second = (
            WrappedKey(key_id=name, wrapped_by="w", wrapped=b"x", created_at=_at(0))
            for name in ("k1", "k2")
        )
        assert await store.save_wrapped_keys((first,), only_first=True)
        assert not await other.save_wrapped_keys((second,), only_first=True)
        await store.save_wrapped_keys((replace(first, wrapped_by="v"), second))
        assert [(key.key_id, key.wrapped_by) for key in await other.wrapped_keys()] == [
            ("k1", "v"),
            ("k2", "w"),
        ]
        await store.save_credential(_credential("user:anna"))
        assert await store.delete_wrapped_keys(("k1", "k2")) == 1
        assert [key.key_id for key in await store.wrapped_keys()] == ["k1"]

    # Servers

    async def test_servers_come_back_as_they_were_saved_by_name(self, store: Store) -> None:
        """Configurations keep every value and the order of their keys."""
        time = _server("time", config={"url": HOSTILE, "b": {"z": 1, "a": [2**70, None, 0.1]}})
        git = _server("git", enabled=False, alias="old git")

        await store.save_server(time)
        await store.save_server(git)

        assert await store.servers(DEFAULT_PROJECT) == [git, time]
        assert json.dumps((await store.servers(DEFAULT_PROJECT))[1].config) == json.dumps(
            time.config
        )

    async def test_saving_a_server_again_replaces_it(self, store: Store) -> None:
        """The id is the identity, so a rename keeps everything else."""
        git = _server("git")
        await store.save_server(git)

        await store.save_server(replace(git, name="vcs", alias="git"))

        assert await store.servers(DEFAULT_PROJECT) == [replace(git, name="vcs", alias="git")]

    async def test_a_name_is_taken_once_per_project(self, store: Store) -> None:
        """The second is refused and changes nothing; another project may use the name."""
        await store.add_project("other")
        git = _server("git")
        await store.save_server(git)

        with pytest.raises(StoreError):
            await store.save_server(_server("git"))
        await store.save_server(_server("git", project_id="other"))

        assert await store.servers(DEFAULT_PROJECT) == [git]

    async def test_a_server_of_an_unknown_project_is_refused(self, store: Store) -> None:
        """Rows without a tenant would belong to nobody."""
        with pytest.raises(StoreError):
            await store.save_server(_server("git", project_id="nobody"))

        await store.add_project("nobody")
        await store.add_project("nobody")
        await store.save_server(_server("git", project_id="nobody"))

    async def test_deleting_a_server_says_whether_there_was_one(self, store: Store) -> None:
        """Nothing else goes."""
        git, time = _server("git"), _server("time")
        await store.save_server(git)
        await store.save_server(time)

        assert await store.delete_server(git.server_id)
        assert not await store.delete_server(git.server_id)
        assert await store.servers(DEFAULT_PROJECT) == [time]

    async def test_servers_of_all_projects_can_be_read_at_once(self, store: Store) -> None:
        """By project and name."""
        await store.add_project("other")
        here, there = _server("time"), _server("git", project_id="other")
        await store.save_server(there)
        await store.save_server(here)

        assert await store.servers(None) == [here, there]

    # Projects, tokens, permissions

    async def test_projects_come_back_with_what_they_set(self, store: Store) -> None:
        """Saving again replaces the settings; the default project is always there."""
        await store.save_project(StoredProject(project_id="web", settings={"read_only": True}))
        await store.save_project(StoredProject(project_id="web", settings={"note": HOSTILE[1:9]}))

        projects = {project.project_id: project for project in await store.projects()}
        assert set(projects) == {DEFAULT_PROJECT, "web"}
        assert projects["web"].settings == {"note": HOSTILE[1:9]}
        assert projects["web"].created_at

    async def test_what_nobody_waits_for_any_more_is_not_kept(self, store: Store) -> None:
        """Who was told that nothing was saved may rely on it, however late the database is."""
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
                await store.projects()
            assert waited.has_saved
            assert not waited.was_slow

    async def test_a_project_goes_with_its_servers(self, store: Store) -> None:
        """And says whether it was there."""
        await store.save_project(StoredProject(project_id="web"))
        await store.save_server(_server("git", project_id="web"))

        assert await store.delete_project("web")
        assert not await store.delete_project("web")
        assert await store.servers(None) == []

    async def test_tokens_come_back_as_they_were(self, store: Store) -> None:
        """Every field; saving again replaces by id."""
        token = StoredToken(
            token_id="t1",  # noqa: S106
            name="anna",
            prefix="tg_abc",
            digest="0" * 64,
            user="anna@example.org",
            projects=("web", "*"),
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
        await store.save_token(token)
        assert await store.tokens() == [token]

        changed = replace(token, name="ben", revoked_at=NOW, limits={})
        await store.save_token(changed)
        await store.touch_tokens({"t1": "2030-01-01T00:00:00.000Z", "nobody": NOW})

        (stored,) = await store.tokens()
        assert stored == replace(changed, last_used_at="2030-01-01T00:00:00.000Z")
        assert await store.delete_token("t1")
        assert not await store.delete_token("t1")

    async def test_a_name_of_a_token_is_taken_once(self, store: Store) -> None:
        """Rules call tokens by name."""
        await store.save_token(_token("t1", "anna"))

        with pytest.raises(StoreError):
            await store.save_token(_token("t2", "anna"))

    async def test_permissions_come_back_oldest_first(self, store: Store) -> None:
        """And go by id."""
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
        await store.save_permissions(rules[::-1])
        await store.save_permissions([])

        assert await store.permissions() == rules
        assert await store.delete_permissions(["p0", "p2", "nothing"]) == 2
        assert await store.permissions() == rules[1:2]

    async def test_guards_come_back_oldest_first(self, store: Store) -> None:
        """And go by id; a second time there is nothing to remove."""
        guards = [
            StoredGuard(guard_id=f"g{number}", settings={"reason": HOSTILE[1:9]}, created_at=NOW)
            for number in range(3)
        ]
        for guard in guards[::-1]:
            await store.save_guard(guard)

        assert await store.guards() == guards
        assert await store.delete_guards(["g0", "g2", "nothing"]) == 2
        assert await store.delete_guards(["g0"]) == 0
        assert await store.guards() == guards[1:2]

    # Sessions of the console

    async def test_sessions_come_back_as_they_were_the_last_used_first(self, store: Store) -> None:
        """Every field, the sealed bytes too; saving again replaces by id."""
        old, new = _session("s1", 1), _session("s2", 2, name=HOSTILE, agent=HOSTILE)
        await store.save_session(old)
        await store.save_session(new)
        assert await store.sessions() == [new, old]
        assert await store.session("s2") == new
        assert await store.session("s3") is None

        changed = replace(old, sealed=b"", address="::1")
        await store.save_session(changed)
        assert await store.session("s1") == changed
        assert len(await store.sessions()) == 2

    async def test_a_session_lives_on_by_being_used_until_it_is_removed(self, store: Store) -> None:
        """What is gone does not come back by a touch."""
        await store.save_session(_session("s1", 1))
        assert await store.touch_session("s1", seen_at=_at(5), expires_at=_at(6))
        session = await store.session("s1")
        assert session == replace(_session("s1", 1), seen_at=_at(5), expires_at=_at(6))
        assert await store.delete_session("s1")
        assert not await store.delete_session("s1")
        assert not await store.touch_session("s1", seen_at=_at(7), expires_at=_at(8))
        assert await store.sessions() == []

    # Threads

    async def test_one_turn_at_a_time_has_a_thread(self, store: Store, other: Store) -> None:
        """Whichever process asks; one that is not heard of any more loses it."""
        lease = await store.begin_turn(_thread("t1"), turn_id="one", until=_at(30), now=_at(1))
        assert (lease.thread_id, lease.running, lease.used_at) == ("t1", "one", _at(1))
        same = await other.begin_turn(_thread("t2"), turn_id="two", until=_at(40), now=_at(2))
        assert (same.thread_id, same.running) == ("t1", "one")
        over = await other.begin_turn(
            _thread("t2"), turn_id="two", until=_at(40), now=_at(3), over="one"
        )
        assert over.running == "two"
        assert not await store.prolong_turn("t1", turn_id="one", until=_at(50))
        assert await store.prolong_turn("t1", turn_id="two", until=_at(50))
        late = await store.begin_turn(_thread("t3"), turn_id="three", until=_at(59), now=_at(51))
        assert (late.thread_id, late.running) == ("t1", "three")
        await store.append_messages("t1", (), ends="two", now=_at(52))
        thread = await other.thread(DEFAULT_PROJECT, "local", HOSTILE)
        assert thread is not None
        assert thread.running == "three"  # only its own end sets it free
        await store.append_messages("t1", (), ends="three", now=_at(53))
        assert (await other.threads(DEFAULT_PROJECT, "local"))[0].running == ""

    async def test_messages_are_numbered_in_the_order_in_which_they_are_kept(
        self, store: Store, other: Store
    ) -> None:
        """Without gaps and never twice, whoever writes at the same time."""
        await store.begin_turn(_thread("t1"), turn_id="one", until=_at(30), now=_at(1))
        async with create_task_group() as group:
            for number in range(6):
                group.start_soon(_say, (store, other)[number % 2], "t1", f"turn{number}")

        messages = await store.thread_messages("t1")
        assert [message.number for message in messages] == [*range(1, 13)]
        for question, answer in zip(messages[::2], messages[1::2], strict=True):
            assert (question.role, answer.role) == ("user", "assistant")
            assert question.turn_id == answer.turn_id
        assert {message.turn_id for message in messages} == {f"turn{number}" for number in range(6)}
        assert messages[0].body == {"content": HOSTILE, "calls": [{"id": "c", "n": 1.5}]}
        assert messages[0].notes == {"policy": "keep"}

    async def test_a_page_of_messages_has_the_newest_before_a_number(self, store: Store) -> None:
        """Oldest first; without a limit all of them."""
        await store.begin_turn(_thread("t1"), turn_id="one", until=_at(30), now=_at(1))
        for number in range(5):
            await _say(store, "t1", f"turn{number}")

        async def numbers(**filters: int) -> list[int]:
            return [message.number for message in await store.thread_messages("t1", **filters)]

        assert await numbers() == [*range(1, 11)]
        assert await numbers(limit=3) == [8, 9, 10]
        assert await numbers(limit=3, before=8) == [5, 6, 7]
        assert await numbers(after=8) == [9, 10]
        assert await numbers(after=2, before=5) == [3, 4]
        assert await numbers(before=1, limit=3) == []

    async def test_what_a_turn_made_and_spent_comes_back(self, store: Store) -> None:
        """Also what was written in several parts; taking a turn back keeps what it cost."""
        await store.begin_turn(_thread("t1"), turn_id="one", until=_at(30), now=_at(1))
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
            at=_at(2),
        )
        state = {"tools": ["git:log"], "pending": {"turn_id": "one"}}
        await _say(store, "t1", "one", artifacts=messages[:1], spending=[cost])
        await _say(store, "t1", "one", artifacts=messages, spending=[cost, cost], state=state)

        assert await store.thread_artifacts("t1", ["a1", "a0", "a2"]) in (messages, messages[::-1])
        assert await store.thread_artifacts("t1", []) == []
        assert await store.thread_spending("t1") == [cost] * 3
        thread = await store.thread(DEFAULT_PROJECT, "local", HOSTILE)
        assert thread is not None
        assert (thread.state, thread.last_number) == (state, 4)
        assert await store.drop_turn("t1", "one") == 4
        assert await store.thread_messages("t1") == []
        assert await store.thread_artifacts("t1", ["a0"]) == []
        assert len(await store.thread_spending("t1")) == 3

    async def test_a_thread_can_be_forgotten_and_keeps_what_was_set(self, store: Store) -> None:
        """Or be removed with all that belongs to it."""
        settings = {"retrieval": "forced", "text": HOSTILE}
        saved = await store.save_thread_settings(_thread("t1"), settings, now=_at(1))
        assert saved.settings == settings
        await _say(store, "t1", "one", state={"from": 1})
        assert await store.clear_thread("t1", now=_at(2)) == 2
        thread = await store.thread(DEFAULT_PROJECT, "local", HOSTILE)
        assert thread is not None
        assert (thread.settings, thread.state, thread.thread_id) == (settings, {}, "t1")
        assert await store.thread(DEFAULT_PROJECT, "other", HOSTILE) is None
        assert await store.delete_thread("t1")
        assert not await store.delete_thread("t1")
        assert await store.threads(DEFAULT_PROJECT, None) == []

    async def test_texts_of_prompts_are_kept_in_every_version(self, store: Store) -> None:
        """Of one prompt all, oldest first; of all prompts the last."""
        versions = [
            StoredPrompt(
                project_id=DEFAULT_PROJECT,
                name=name,
                version=version,
                text=text,
                changed_at=_at(version),
                changed_by="anna",
            )
            for name, version, text in (
                ("basic", 1, HOSTILE),
                ("basic", 2, None),
                ("rules", 1, ""),
            )
        ]
        for version in versions:
            await store.add_prompt_version(version)
        assert await store.prompt_versions(DEFAULT_PROJECT, "basic") == versions[:2]
        assert await store.prompt_versions(DEFAULT_PROJECT, None) == versions[1:]
        assert await store.prompt_versions("other", None) == []

    # Changes of access

    async def test_every_change_of_access_is_counted(self, store: Store) -> None:
        """Replicas look at the number to know that they have to read."""
        versions = [await store.access_version()]
        for change in (
            store.save_project(StoredProject(project_id="web")),
            store.save_server(_server("git", project_id="web")),
            store.save_token(_token("t1", "anna")),
            store.save_permissions(
                [
                    StoredPermission(
                        permission_id="p1", effect="allow", who="everyone", kind="any", pattern="*"
                    )
                ]
            ),
            store.delete_permissions(["p1"]),
            store.save_guard(StoredGuard(guard_id="g1", settings={}, created_at=NOW)),
            store.delete_guards(["g1"]),
            store.delete_token("t1"),
            store.delete_project("web"),
        ):
            await change
            versions.append(await store.access_version())

        assert versions == sorted(set(versions))
        await store.touch_tokens({"t1": NOW})
        assert await store.access_version() == versions[-1]

    # Listings

    async def test_listings_come_back_by_server_and_project(self, store: Store) -> None:
        """Bytes as they were."""
        await store.add_project("other")
        listings = [_snapshot("git", listing=bytes(range(256)) * 5000), _snapshot("time")]
        for listing in (*listings, _snapshot("git", project_id="other")):
            await store.save_snapshot(listing)

        assert await store.snapshots(DEFAULT_PROJECT) == listings

        await store.delete_snapshot(DEFAULT_PROJECT, "git")
        assert await store.snapshots(DEFAULT_PROJECT) == [_snapshot("time")]
        assert len(await store.snapshots("other")) == 1

    async def test_a_listing_is_written_again_only_when_its_digest_changed(
        self, store: Store
    ) -> None:
        """Servers are listed often and change seldom."""
        later = "2026-07-28T12:30:00.000Z"
        await store.save_snapshot(_snapshot("git"))

        await store.save_snapshot(_snapshot("git", listed_at=later))
        assert await store.snapshots(DEFAULT_PROJECT) == [_snapshot("git")]

        changed = _snapshot("git", listed_at=later, listing=b"{}", digest="two")
        await store.save_snapshot(changed)
        assert await store.snapshots(DEFAULT_PROJECT) == [changed]

    # Audit

    @given(record=audit_records)
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    async def test_any_audit_record_comes_back_as_it_was(
        self, store: Store, record: AuditRecord
    ) -> None:
        """A record that cannot be kept would be lost, or hold up all others."""
        await store.append_audit([record])

        records = await store.audit(AuditFilter(project_id=record.project_id, limit=10_000))

        assert record in records

    async def test_odd_details_do_not_cost_the_record(self, store: Store) -> None:
        """Values that JSON does not know are kept as text, endless nesting not at all."""
        endless: dict[str, object] = {}
        endless["again"] = endless
        deep: dict[str, object] = {}
        for _ in range(100_000):
            deep = {"in": deep}
        details = [{"path": Path("a")}, endless, deep, {"size": 10**400}]

        await store.append_audit(
            [sample_record(minute, detail=detail) for minute, detail in enumerate(details)]
        )

        records = await store.audit(AuditFilter())
        assert [record.record_id for record in records] == [
            sample_record(minute).record_id for minute in (3, 2, 1, 0)
        ]
        assert records[3].detail == {"path": "a"}

    @pytest.mark.parametrize("oldest_first", [False, True], ids=["newest", "oldest"])
    async def test_audit_records_come_in_order_and_by_page(
        self, store: Store, *, oldest_first: bool
    ) -> None:
        """Whatever the order they were written in."""
        records = [sample_record(minute // 3, record_id=new_id()) for minute in range(50)]
        await store.append_audit(records[25:])
        await store.append_audit(records[:25])

        first = await store.audit(AuditFilter(oldest_first=oldest_first, limit=30))
        last = (first[-1].at, first[-1].record_id)
        rest = await store.audit(AuditFilter(oldest_first=oldest_first, after=last))

        assert first + rest == (records if oldest_first else records[::-1])

    async def test_a_record_that_is_there_is_left_alone(self, store: Store) -> None:
        """A batch is written again when nobody knows whether it arrived."""
        await store.append_audit([sample_record(1)])
        await store.append_audit([sample_record(1, status="other"), sample_record(2)])
        await store.append_audit([])

        assert await store.audit(AuditFilter()) == [sample_record(2), sample_record(1)]

    @pytest.mark.parametrize(
        ("filters", "minutes"),
        [
            (AuditFilter(), [4, 3, 2, 1, 0]),
            (AuditFilter(project_id="other"), [1]),
            (AuditFilter(action="discover"), [2]),
            (AuditFilter(server="time"), [3]),
            (AuditFilter(status="timed_out"), [4]),
            (AuditFilter(since="2026-07-28T00:03:00.000Z"), [4, 3]),
            (AuditFilter(phase="intent"), [0]),
            (AuditFilter(limit=2), [4, 3]),
            (AuditFilter(server="git", since="2026-07-28T00:01:00.000Z", limit=2), [4, 2]),
            (AuditFilter(server=HOSTILE), []),
        ],
        ids=str,
    )
    async def test_a_filter_gives_the_records_that_fit(
        self, store: Store, filters: AuditFilter, minutes: list[int]
    ) -> None:
        """Every field narrows."""
        await store.append_audit(
            [
                sample_record(0, phase="intent"),
                sample_record(1, project_id="other"),
                sample_record(2, action="discover"),
                sample_record(3, server="time"),
                sample_record(4, status="timed_out"),
            ]
        )

        records = await store.audit(filters)

        assert [int(record.record_id, 16) for record in records] == minutes

    async def test_a_batch_that_cannot_be_written_leaves_nothing(self, store: Store) -> None:
        """The store works on."""
        broken = sample_record(2, action=None)

        with pytest.raises(StoreError) as caught:
            await store.append_audit([sample_record(1), broken, sample_record(3)])

        assert "action" in str(caught.value)
        assert await store.audit(AuditFilter()) == []
        await store.append_audit([sample_record(1)])
        assert await store.audit(AuditFilter()) == [sample_record(1)]

    # Large results and secrets

    async def test_results_come_back_by_handle(self, store: Store) -> None:
        """Any bytes, many of them; unknown handles give None, whatever a client makes up."""
        large = _result("one", caller_id=HOSTILE, body=bytes(range(256)) * 40_000)
        await store.save_result(large)

        assert await store.result("one") == large
        assert await store.result("two") is None
        assert await store.result(HOSTILE) is None

    async def test_a_secret_is_the_same_for_all_from_its_first_use(
        self, store: Store, other: Store
    ) -> None:
        """Two processes that ask for it first at the same moment included."""
        secrets: list[bytes] = []

        async def ask(asked: Store) -> None:
            secrets.append(await asked.secret("state"))

        async with create_task_group() as group:
            for asked in (store, other, store, other):
                group.start_soon(ask, asked)

        assert len(set(secrets)) == 1
        assert len(secrets[0]) == 32
        assert await store.secret("handles") not in secrets

    # Clean-up

    async def test_old_records_go_and_young_ones_stay(self, store: Store) -> None:
        """More than one portion, and the exact count."""
        old = [sample_record(minute % 1440, record_id=new_id()) for minute in range(2500)]
        young = sample_record(0, at="2026-08-01T00:00:00.000Z")
        await store.append_audit([*old, young])

        pruned = await store.prune(Retention(audit_days=2), now="2026-08-01T12:00:00.000Z")

        assert pruned == PrunedCounts(audit_records=2500)
        assert await store.audit(AuditFilter()) == [young]

    async def test_a_definition_that_is_replaced_is_kept_as_a_version(self, store: Store) -> None:
        """Of those that are said to change and do; the newest 20, for as long as is allowed."""
        later = "2026-08-%02dT12:00:00.000Z"
        await store.save_seen_tools([_seen("log"), _seen(HOSTILE)], changed={"log"})
        await store.save_seen_tools([_seen("log"), _seen(HOSTILE)], changed={"log"})
        assert await store.tool_versions(DEFAULT_PROJECT, "git", "log") == []
        for day in range(1, 25):
            body = f'{{"day":{day}}}'.encode()
            changed = _seen("log", digest=f"d{day}", definition=body, seen_at=later % day)
            await store.save_seen_tools([changed, _seen("other")], changed={"log", HOSTILE})

        versions = await store.tool_versions(DEFAULT_PROJECT, "git", "log")
        assert len(versions) == 20
        newest = ToolVersion(
            definition=b'{"day":23}',
            state="accepted",
            seen_at=later % 23,
            replaced_at=later % 24,
        )
        assert versions[0] == newest
        assert await store.tool_versions(DEFAULT_PROJECT, "git", HOSTILE) == []

        pruned = await store.prune(Retention(tool_version_days=2), now=later % 26)
        assert pruned == PrunedCounts(tool_versions=19)
        assert await store.tool_versions(DEFAULT_PROJECT, "git", "log") == [newest]
        await store.forget_seen_tools(DEFAULT_PROJECT, "git")
        assert await store.tool_versions(DEFAULT_PROJECT, "git", "log") == []

    async def test_records_are_counted_from_a_moment_on_up_to_so_many(self, store: Store) -> None:
        """So that it is known before whether counting everything takes long."""
        await store.append_audit([sample_record(minute) for minute in range(9)])
        first = sample_record(4).at
        assert await store.audit_size(first, most=100) == 5
        assert await store.audit_size(first, most=3) == 3
        assert await store.audit_size("9999", most=3) == 0

    async def test_the_oldest_records_go_when_there_are_too_many_bytes(self, store: Store) -> None:
        """What is left fits, and is the newest."""
        records = [sample_record(minute, query="x" * 1000) for minute in range(100)]
        await store.append_audit(records)

        pruned = await store.prune(Retention(audit_max_bytes=50_000), now=NOW)

        left = await store.audit(AuditFilter())
        assert left == records[: -len(left) - 1 : -1]
        assert 30 < len(left) < 50
        assert pruned == PrunedCounts(audit_records=100 - len(left))

    async def test_detections_come_back_as_they_were(self, store: Store) -> None:
        """Newest first; any text is kept."""
        first = _detection(1, message=HOSTILE, conversation=HOSTILE, rival=HOSTILE)
        second = _detection(2, message=None, outcome="none", intent="", remembered=True)

        await store.append_detections([first, second])
        await store.append_detections([replace(first, intent="another")])

        assert await store.detections(DetectionFilter()) == [second, first]

    async def test_the_detections_that_are_wanted_are_found_and_counted(self, store: Store) -> None:
        """By project, outcome, time and confidence."""
        detections = [_detection(minute, confidence=minute / 10) for minute in range(4)]
        detections += [_detection(4, outcome="none", intent="", remembered=True)]
        detections += [_detection(5, project_id="other")]
        await store.append_detections(detections)

        async def minutes(**filters: Any) -> list[int]:
            rows = await store.detections(DetectionFilter(**filters))
            return [int(row.detection_id, 16) for row in rows]

        assert await minutes() == [5, 4, 3, 2, 1, 0]
        assert await minutes(limit=2) == [5, 4]
        assert await minutes(project_id="other") == [5]
        assert await minutes(outcomes=("none", "unsure")) == [4]
        assert await minutes(since=detections[4].at) == [5, 4]
        assert await minutes(project_id=DEFAULT_PROJECT, below=0.2) == [1, 0]
        counts = await store.detection_counts(DetectionFilter())
        assert [(count.project_id, count.outcome, count.intent) for count in counts] == [
            (DEFAULT_PROJECT, "found", "refunds"),
            (DEFAULT_PROJECT, "none", ""),
            ("other", "found", "refunds"),
        ]
        assert [(count.count, count.remembered) for count in counts] == [(4, 0), (1, 1), (1, 0)]

    async def test_detections_are_forgotten_by_project_age_and_size(self, store: Store) -> None:
        """Each limit by itself, and a project at once."""
        await store.append_detections(
            [_detection(minute, message="x" * 900) for minute in range(9)]
        )
        await store.append_detections([_detection(0, project_id="other", detection_id="o")])

        pruned = await store.prune(Retention(detection_max_bytes=5_000), now=NOW)
        left = await store.detections(DetectionFilter())
        assert 0 < len(left) < 6
        assert pruned == PrunedCounts(detections=10 - len(left))
        assert await store.clear_detections(DEFAULT_PROJECT) == len(left)
        await store.append_detections([_detection(1)])
        pruned = await store.prune(Retention(detection_days=1), now="2026-08-19T12:00:00.000Z")
        assert pruned == PrunedCounts(detections=1)

    async def test_statements_come_back_newest_first_for_whom_they_are(self, store: Store) -> None:
        """By project, caller and time; old ones are forgotten."""
        first = StoredStatement(
            statement_id="1",
            at="2026-07-01T10:00:00.000Z",
            project_id=DEFAULT_PROJECT,
            caller_id="ann",
            conversation="t",
            connection="shop",
            dialect="sqlite",
            statement=f"SELECT '{HOSTILE}'",
            outcome="refused",
            reason="Because.",
        )
        second = replace(
            first, statement_id="2", at="2026-07-02T10:00:00.000Z", outcome="done", rows=3
        )
        other = replace(second, statement_id="3", caller_id="bob", elapsed_ms=1.5)
        for statement in (first, second, other, second):
            await store.append_statement(statement)

        assert await store.statements(DEFAULT_PROJECT) == [other, second, first]
        assert await store.statements(DEFAULT_PROJECT, caller_id="ann", limit=1) == [second]
        assert await store.statements(DEFAULT_PROJECT, since=second.at) == [other, second]
        assert await store.statements("other") == []

        pruned = await store.prune(Retention(statement_days=1), now="2026-07-03T00:00:00.000Z")
        assert pruned == PrunedCounts(statements=1)
        pruned = await store.prune(Retention(statement_max_bytes=0), now=NOW)
        assert pruned == PrunedCounts(statements=2)

    async def test_versions_of_a_schema_come_back_newest_first(self, store: Store) -> None:
        """The last one with its content, lists without."""
        for version in (_version(1), _version(2, connection=HOSTILE), _version(2)):
            assert await store.save_schema(version)

        assert await store.schema(DEFAULT_PROJECT, "shop") == _version(2)
        assert await store.schema(DEFAULT_PROJECT, HOSTILE) == _version(2, connection=HOSTILE)
        assert await store.schema("another", "shop") is None
        versions = await store.schema_versions(DEFAULT_PROJECT, "shop", limit=10)
        assert versions == [_version(2, content=b""), _version(1, content=b"")]
        assert await store.schema_versions(DEFAULT_PROJECT, "shop", limit=1) == versions[:1]

    async def test_a_version_of_a_schema_is_numbered_once(self, store: Store) -> None:
        """Of two processes that see the same change, one is told that it came too late."""
        assert await store.save_schema(_version(1))
        assert not await store.save_schema(_version(1, digest="other"))

        assert await store.schema(DEFAULT_PROJECT, "shop") == _version(1)

    async def test_a_version_of_a_schema_is_seen_again(self, store: Store) -> None:
        """The latest moment stays, in whatever order they come."""
        await store.save_schema(_version(1))
        for day in ("03", "02"):
            at = f"2026-07-{day}T12:00:00.000Z"
            await store.see_schema(DEFAULT_PROJECT, "shop", 1, at)

        schema = await store.schema(DEFAULT_PROJECT, "shop")
        assert schema == _version(1, seen_at="2026-07-03T12:00:00.000Z")

    async def test_old_versions_of_schemas_go_but_never_a_last_one(self, store: Store) -> None:
        """Not by age, and not by size."""
        for version in (*map(_version, (1, 20, 21, 22)), _version(1, connection="old")):
            await store.save_schema(version)

        pruned = await store.prune(Retention(schema_days=30), now="2026-08-19T12:00:00.000Z")
        assert pruned == PrunedCounts(schemas=1)
        pruned = await store.prune(Retention(schema_max_bytes=1), now=NOW)
        assert pruned == PrunedCounts(schemas=2)
        left = await store.schema_versions(DEFAULT_PROJECT, "shop", limit=10)
        assert [version.number for version in left] == [22]
        assert await store.schema(DEFAULT_PROJECT, "old") is not None

    async def test_tools_come_back_as_they_were_seen_last(self, store: Store) -> None:
        """By server and name; those of another project or server are not among them."""
        log, hostile = _seen("log"), _seen(HOSTILE, state="held", accepted_digest="", accepted=b"")
        other = _seen("log", server="other")
        await store.save_seen_tools([hostile, log, other])
        assert await store.seen_tools(DEFAULT_PROJECT, "git") == sorted(
            [log, hostile], key=lambda tool: tool.tool
        )
        assert len(await store.seen_tools(DEFAULT_PROJECT)) == 3
        assert await store.seen_tools("another") == []

        decided = replace(hostile, state="accepted", accepted=b"{}", decided_by="anna")
        await store.save_seen_tools([decided])
        assert decided in await store.seen_tools(DEFAULT_PROJECT, "git")
        await store.forget_seen_tools(DEFAULT_PROJECT, "git")
        assert await store.seen_tools(DEFAULT_PROJECT) == [other]

    async def test_of_many_that_park_one_call_all_get_the_same_approval(
        self, store: Store, other: Store
    ) -> None:
        """A model repeats a call while nobody has decided: people see it once."""
        approval_ids: list[str] = []

        async def park(where: Store, number: int) -> None:
            approval_ids.append((await where.park_approval(_approval(number))).approval_id)

        async with create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(park, (store, other)[number % 2], number)
        assert len(set(approval_ids)) == 1
        assert len(await store.approvals(ApprovalFilter(), now=NOW)) == 1

    async def test_an_approval_is_decided_once_and_taken_once(
        self, store: Store, other: Store
    ) -> None:
        """Of a hundred parallel decisions one counts, of a hundred calls one runs."""
        await store.park_approval(_approval(1))
        decided: list[bool] = []
        taken: list[bool] = []

        async def decide(where: Store) -> None:
            decided.append(await _decide(where, "a1", "approved"))

        async def take(where: Store) -> None:
            taken.append(await where.claim_approval("a1", step=0, now=NOW))

        for work in (decide, take):
            async with create_task_group() as tasks:
                for number in range(100):
                    tasks.start_soon(work, (store, other)[number % 2])
        assert sum(decided) == sum(taken) == 1
        assert [await store.claim_approval("a1", step=1, now=NOW) for _ in range(2)] == [
            True,
            False,
        ]
        assert not await _decide(store, "a1", "rejected")

    async def test_approvals_come_back_as_they_were_newest_first(self, store: Store) -> None:
        """Whatever texts they hold, and with the state that they have now."""
        for number in (1, 2, 3):
            draft = _approval(number, binding=f"b{number}", arguments=HOSTILE, tool=HOSTILE)
            assert await store.park_approval(draft) == draft
        assert await _decide(store, "a2", "rejected")
        approvals = await store.approvals(ApprovalFilter(), now=NOW)
        assert [approval.approval_id for approval in approvals] == ["a3", "a2", "a1"]
        assert (approvals[0].arguments, approvals[1].comment) == (HOSTILE, HOSTILE)
        assert await store.approval("a3", now=NOW) == approvals[0]
        assert await store.approval("none", now=NOW) is None
        for wanted_ones, ids in (
            (ApprovalFilter(state="waiting"), ["a3", "a1"]),
            (ApprovalFilter(state="rejected"), ["a2"]),
            (ApprovalFilter(after="a3", limit=1), ["a2"]),
            (ApprovalFilter(caller_id="nobody"), []),
            (ApprovalFilter(project_id=DEFAULT_PROJECT, caller_id="local"), ["a3", "a2", "a1"]),
        ):
            approvals = await store.approvals(wanted_ones, now=NOW)
            assert [approval.approval_id for approval in approvals] == ids

    async def test_an_approval_expires_and_makes_room_for_the_next(self, store: Store) -> None:
        """What was not used in time is worth nothing, and is removed after a month."""
        first = _approval(1)
        await store.park_approval(first)
        late = "2026-07-28T14:00:00.000Z"
        assert (await store.approval("a1", now=late) or first).state == "expired"
        assert not await store.claim_approval("a1", step=0, now=late)
        following = _approval(2, created_at=late, expires_at="2026-07-28T15:00:00.000Z")
        assert (await store.park_approval(following)).approval_id == "a2"
        pruned = await store.prune(Retention(), now="2026-09-28T14:00:00.000Z")
        assert pruned.approvals == 2

    async def test_expired_results_go_and_then_the_oldest(self, store: Store) -> None:
        """Bytes count as they are read."""
        hours = {"gone": "11:59", "first": "12:10", "second": "12:20", "third": "12:30"}
        for handle, hour in hours.items():
            expires_at = f"2026-07-28T{hour}:00.000Z"
            await store.save_result(_result(handle, body=b"x" * 100, expires_at=expires_at))

        pruned = await store.prune(Retention(results_max_bytes=200), now=NOW)

        assert pruned == PrunedCounts(results=2)
        handles = [handle for handle in hours if await store.result(handle) is not None]
        assert handles == ["second", "third"]

    async def test_only_old_listings_of_servers_that_are_gone_go(self, store: Store) -> None:
        """Servers in the store and those that the caller names still exist."""
        await store.save_server(_server("stored"))
        for name in ("stored", "configured", "gone", "seen"):
            await store.save_snapshot(_snapshot(name, listed_at="2026-05-01T00:00:00.000Z"))
        await store.save_snapshot(_snapshot("seen", listed_at="2026-07-01T00:00:00.000Z"))

        pruned = await store.prune(
            Retention(), now=NOW, configured=[(DEFAULT_PROJECT, "configured")]
        )

        assert pruned == PrunedCounts(snapshots=1)
        left = [snapshot.server for snapshot in await store.snapshots(DEFAULT_PROJECT)]
        assert left == ["configured", "seen", "stored"]

    # Several at once

    async def test_two_processes_write_and_read_one_store_at_once(
        self, store: Store, store_url: str
    ) -> None:
        """Nothing is lost and nobody fails."""
        async with (
            await anyio.open_process([sys.executable, "-c", _WRITER, store_url]) as writer,
            create_task_group() as group,
        ):
            for part in range(20):
                records = [sample_record(part, record_id=new_id()) for _ in range(10)]
                group.start_soon(store.append_audit, records)
                group.start_soon(store.audit, AuditFilter())
            with anyio.fail_after(HANG_S):
                assert await writer.wait() == 0

        assert (await store.sizes())["audit"] == 400

    async def test_a_cancelled_write_happened_or_not(self, store: Store) -> None:
        """A client that goes away leaves nothing half done, and the store works on."""
        records = [sample_record(minute) for minute in range(200)]

        async with create_task_group() as group:
            group.start_soon(store.append_audit, records)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

        assert (await store.sizes())["audit"] in {0, 200}
        await store.append_audit(records)
        assert (await store.sizes())["audit"] == 200

    # Usage

    async def test_searches_come_back_newest_first_with_what_became_of_them(
        self, store: Store
    ) -> None:
        """As they were, whatever is in their texts."""
        first = _search(1, query=HOSTILE, conversation=HOSTILE, weak=True)
        second = _search(2, vector=b"", model="", margin=None, shown=())
        uses = [_use(3, 1, tool=HOSTILE), _use(4, 1, outcome="wrong")]

        await store.append_usage([first, second], uses[:1])
        await store.append_usage([], uses[1:])

        searches = await store.usage(UsageFilter(project_id=DEFAULT_PROJECT))
        assert searches == [UsageEntry(search=second), UsageEntry(search=first, uses=tuple(uses))]

    async def test_the_usage_log_gives_the_searches_that_are_wanted(self, store: Store) -> None:
        """Of one project always; of a caller, with uses, since a moment where that is asked for."""
        searches = [_search(minute) for minute in range(4)]
        searches += [_search(4, caller_id="ann"), _search(5, project_id="other")]
        await store.append_usage(searches, [_use(10, 0), _use(11, 2), _use(12, 0)])

        async def numbers(**filters: object) -> list[int]:
            logged = await store.usage(replace(UsageFilter(project_id=DEFAULT_PROJECT), **filters))
            return [int(entry.search.search_id, 16) for entry in logged]

        assert await numbers() == [4, 3, 2, 1, 0]
        assert await numbers(limit=2) == [4, 3]
        assert await numbers(caller_id="ann") == [4]
        assert await numbers(since=searches[3].at) == [4, 3]
        assert await numbers(with_uses=True) == [2, 0]
        assert await numbers(with_uses=True, since=_use(12, 0).at) == [0]
        assert await numbers(project_id="nobody") == []

    async def test_a_use_waits_for_its_search(self, store: Store) -> None:
        """They are written by turns; what is written twice is there once."""
        await store.append_usage([], [_use(2, 1)])
        assert await store.usage(UsageFilter(project_id=DEFAULT_PROJECT)) == []

        for _ in range(2):
            await store.append_usage([_search(1)], [_use(2, 1)])

        searches = await store.usage(UsageFilter(project_id=DEFAULT_PROJECT, with_uses=True))
        assert searches == [UsageEntry(search=_search(1), uses=(_use(2, 1),))]

    async def test_a_batch_of_usage_is_written_whole_or_not_at_all(self, store: Store) -> None:
        """Otherwise it would be written twice when it is tried again."""
        with pytest.raises(StoreError):
            await store.append_usage([_search(1), _search(2, margin="none")], [_use(3, 1)])  # pyright: ignore[reportArgumentType]

        sizes = await store.sizes()
        assert (sizes["usage_searches"], sizes["usage_uses"]) == (0, 0)

    async def test_a_project_can_be_forgotten(self, store: Store) -> None:
        """And only that."""
        await store.append_usage(
            [_search(1), _search(2, project_id="other")],
            [_use(3, 1), _use(4, 2, project_id="other")],
        )

        assert await store.clear_usage(DEFAULT_PROJECT) == 1
        assert await store.clear_usage(DEFAULT_PROJECT) == 0

        sizes = await store.sizes()
        assert (sizes["usage_searches"], sizes["usage_uses"]) == (1, 1)

    async def test_the_usage_log_stays_within_its_limits(self, store: Store) -> None:
        """In days and in bytes, the oldest first, uses with their searches."""
        searches = [_search(minute) for minute in range(60)]
        searches.append(_search(90, at="2026-01-01T00:00:00.000Z"))
        uses = [_use(70 + minute, minute) for minute in range(20)]
        await store.append_usage(searches, uses)

        pruned = await store.prune(Retention(usage_days=30), now="2026-07-28T12:00:00.000Z")
        assert pruned == PrunedCounts(usage=1)

        pruned = await store.prune(
            Retention(usage_max_bytes=10_000), now="2026-07-28T12:00:00.000Z"
        )
        remaining = await store.usage(UsageFilter(project_id=DEFAULT_PROJECT))
        assert 5 <= len(remaining) <= 14
        assert remaining[0].search == searches[59]
        assert pruned.usage == 60 - len(remaining) + 20

    # Upkeep

    async def test_a_backup_restores_everything(
        self, store: Store, other: Store, tmp_path: Path
    ) -> None:
        """Seen by those who use the store meanwhile; what came after the backup is gone."""
        assert isinstance(store, StoreMaintenance)
        await _fill(store)
        before, key = await _contents(store), await store.secret("state")
        await store.backup(tmp_path / "backup.db")
        await store.append_audit([sample_record(9)])
        await store.save_server(_server("later"))
        await store.delete_snapshot(DEFAULT_PROJECT, "git")

        rows = await store.restore(tmp_path / "backup.db")

        assert rows["audit"] == 2
        assert await _contents(other) == before
        assert await other.secret("state") == key

    async def test_a_backup_becomes_a_store_of_another_kind(
        self, store: Store, tmp_path: Path
    ) -> None:
        """From SQLite to PostgreSQL and back."""
        assert isinstance(store, StoreMaintenance)
        await _fill(store)
        await store.backup(tmp_path / "backup.db")

        elsewhere = make_store(f"sqlite:///{tmp_path / 'elsewhere.db'}")
        assert isinstance(elsewhere, StoreMaintenance)
        await elsewhere.restore(tmp_path / "backup.db")
        assert await _contents(elsewhere) == await _contents(store)
        await elsewhere.append_audit([sample_record(7)])
        await elsewhere.backup(tmp_path / "back.db")
        await elsewhere.close()
        await store.restore(tmp_path / "back.db")

        assert (await store.audit(AuditFilter(limit=1))) == [sample_record(7)]

    @pytest.mark.parametrize(
        "content", [b"", b"no database at all", None], ids=["empty", "text", "none"]
    )
    async def test_what_is_no_backup_is_refused_and_changes_nothing(
        self, store: Store, tmp_path: Path, content: bytes | None
    ) -> None:
        """A wrong file must not empty the store."""
        assert isinstance(store, StoreMaintenance)
        await store.append_audit([sample_record()])
        if content is not None:
            (tmp_path / "backup").write_bytes(content)

        with pytest.raises(StoreError) as caught:
            await store.restore(tmp_path / "backup")

        assert str(tmp_path / "backup") in str(caught.value)
        assert await store.audit(AuditFilter()) == [sample_record()]

    async def test_a_store_exists_once_it_was_opened(self, make: Callable[[], Store]) -> None:
        """Asking makes nothing."""
        store = make()
        assert isinstance(store, StoreMaintenance)
        assert not await store.exists()
        assert not await store.exists()

        await store.open()

        assert await store.exists()
        await store.close()

    async def test_a_sound_store_has_no_problems_and_needs_no_upgrade(self, store: Store) -> None:
        """The revision is the same before and after."""
        assert isinstance(store, StoreMaintenance)
        checkup = await store.check()
        upgrade = await store.upgrade()

        assert checkup.problems == ()
        assert upgrade.before == upgrade.after == checkup.schema
        assert upgrade.copy is None


def _thread(thread_id: str) -> StoredThread:
    return StoredThread(
        thread_id=thread_id, project_id=DEFAULT_PROJECT, caller_id="local", name=HOSTILE
    )


async def _say(store: Store, thread_id: str, turn_id: str, **more: Any) -> int:
    """Keep a question and its answer."""
    bodies = ({"content": HOSTILE, "calls": [{"id": "c", "n": 1.5}]}, {"content": "yes"})
    messages = [
        StoredMessage(
            number=0, turn_id=turn_id, role=role, body=body, notes={"policy": "keep"}, at=_at(2)
        )
        for role, body in zip(("user", "assistant"), bodies, strict=True)
    ]
    return await store.append_messages(thread_id, messages, now=_at(2), **more)


def _approval(number: int, **fields: Any) -> StoredApproval:
    defaults: dict[str, Any] = {
        "binding": "b",
        "project_id": DEFAULT_PROJECT,
        "caller_id": "local",
        "who": "local",
        "tool": "git:push",
        "created_at": NOW,
        "expires_at": "2026-07-28T13:00:00.000Z",
    }
    return StoredApproval(approval_id=f"a{number}", **defaults | fields)


async def _decide(store: Store, approval_id: str, state: Literal["approved", "rejected"]) -> bool:
    return await store.decide_approval(
        approval_id, state=state, by="anna", via="rest", comment=HOSTILE, edited=None, now=NOW
    )


async def _fill(store: Store) -> None:
    await store.add_project("other")
    await store.save_server(_server("git", server_id="1", alias=HOSTILE))
    await store.save_snapshot(_snapshot("git"))
    await store.save_result(_result("one"))
    await store.append_audit([sample_record(1, query=HOSTILE, duration_ms=0.1), sample_record(2)])
    await store.append_usage([_search(1, query=HOSTILE)], [_use(2, 1)])


async def _contents(store: Store) -> list[object]:
    return [
        await store.servers(DEFAULT_PROJECT),
        await store.snapshots(DEFAULT_PROJECT),
        await store.result("one"),
        await store.audit(AuditFilter()),
        await store.usage(UsageFilter(project_id=DEFAULT_PROJECT)),
        {name: rows for name, rows in (await store.sizes()).items() if name in _COUNTED},
    ]


_COUNTED = {"projects", "servers", "snapshots", "results", "audit"}

_WRITER = """
import sys
import anyio
from toolgate.base.ids import new_id
from toolgate.store import AuditFilter, make_store
from toolgate.testing.contracts.store import sample_record

async def main():
    store = make_store(sys.argv[1])
    await store.open()
    for part in range(20):
        await store.append_audit([sample_record(part, record_id=new_id()) for _ in range(10)])
        await store.audit(AuditFilter())
    await store.close()

anyio.run(main)
"""
