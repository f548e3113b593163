"""Rows for the store contracts, and helpers that write and read them."""

from dataclasses import replace
from typing import Any, Literal

from hypothesis import strategies as st

from toolgate.base.ids import new_id
from toolgate.store import (
    AuditFilter,
    CredentialKey,
    Fingerprint,
    Store,
    StoredApproval,
    StoredCredential,
    StoredDetection,
    StoredMessage,
    StoredProgram,
    StoredResult,
    StoredSchema,
    StoredSearch,
    StoredServer,
    StoredSession,
    StoredSnapshot,
    StoredThread,
    StoredToken,
    StoredUse,
    UsageFilter,
)
from toolgate.types import AuditRecord

SAMPLE_PROJECT = "file-project"
"""The project of all samples: defined in a file, so that the store only has a reference to it."""

HOSTILE = "\x00 \x1a0000 \ud800 é 🚀 '\"; DROP TABLE audit; --"
"""A text that a client may send as any value."""

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
"""Any valid record, including texts that databases cannot store."""


def sample_record(minute: int = 0, **changes: object) -> AuditRecord:
    """A simple record of a minute of a fixed day."""
    record = AuditRecord(
        record_id=f"{minute:032x}",
        at=f"2026-07-28T{minute // 60:02d}:{minute % 60:02d}:00.000Z",
        action="call",
        server="git",
        target="git:log",
    )
    return replace(record, **changes)


def sample_token(token_id: str, name: str) -> StoredToken:
    """A simple token."""
    return StoredToken(token_id=token_id, name=name, prefix="tg_", digest="0" * 64)


def sample_credential(subject: str) -> StoredCredential:
    """A login at the server `git`."""
    key = CredentialKey(project_id=SAMPLE_PROJECT, server="git", subject=subject, kind="login")
    return StoredCredential(key=key, key_id="k1", sealed=bytes(range(256)))


def minute_at(minute: int) -> str:
    """A minute of one hour of a fixed day."""
    return f"2026-07-28T12:{minute:02}:00.000Z"


def sample_session(session_id: str, minute: int, **changes: object) -> StoredSession:
    """A session of the console, last used at a minute."""
    session = StoredSession(
        session_id=session_id,
        caller_id="token:t1",
        name="anna",
        sealed=bytes(range(256)),
        created_at=minute_at(0),
        seen_at=minute_at(minute),
        expires_at=minute_at(minute + 1),
        address="127.0.0.1",
        agent="a browser",
    )
    return replace(session, **changes)


def sample_server(name: str, **changes: object) -> StoredServer:
    """A stored server."""
    server = StoredServer(
        server_id=new_id(), project_id=SAMPLE_PROJECT, name=name, config={"command": "git"}
    )
    return replace(server, **changes)


def sample_snapshot(server: str, **changes: object) -> StoredSnapshot:
    """The listing of a server."""
    snapshot = StoredSnapshot(
        project_id=SAMPLE_PROJECT,
        server=server,
        listing=b'{"tools":[]}' * 100,
        digest="one",
        listed_at=NOW,
    )
    return replace(snapshot, **changes)


def sample_result(handle: str, **changes: object) -> StoredResult:
    """A large result."""
    result = StoredResult(
        handle=handle,
        project_id=SAMPLE_PROJECT,
        caller_id="local",
        body=b"text",
        expires_at="2026-07-28T13:00:00.000Z",
    )
    return replace(result, **changes)


def sample_program(program_id: str, **changes: object) -> StoredProgram:
    """A program that waits."""
    program = StoredProgram(
        program_id=program_id,
        project_id=SAMPLE_PROJECT,
        caller_id="local",
        state="waiting",
        body=b"state",
        created_at="2026-07-28T11:00:00.000Z",
        expires_at="2026-07-28T13:00:00.000Z",
    )
    return replace(program, **changes)


def sample_search(minute: int, **changes: object) -> StoredSearch:
    """A search of one minute of a fixed day."""
    search = StoredSearch(
        search_id=f"{minute:032x}",
        at=f"2026-07-28T{minute // 60:02d}:{minute % 60:02d}:00.000Z",
        project_id=SAMPLE_PROJECT,
        caller_id="local",
        model="bundled",
        vector=bytes(range(256)) * 2,
        shown=(("git:log", 0.75), (HOSTILE, 0.25)),
        margin=0.5,
    )
    return replace(search, **changes)


def sample_detection(minute: int, **changes: object) -> StoredDetection:
    """A detected intent of one minute of a fixed day."""
    detection = StoredDetection(
        detection_id=f"{minute:032x}",
        at=f"2026-07-28T{minute // 60:02d}:{minute % 60:02d}:00.000Z",
        project_id=SAMPLE_PROJECT,
        caller_id="local",
        door="detect",
        outcome="found",
        stage="semantic",
        intent="refunds",
        confidence=0.75,
    )
    return replace(detection, **changes)


def sample_fingerprint(name: str, **changed: Any) -> Fingerprint:
    """An accepted tool of the server `git`."""
    values: dict[str, Any] = {
        "project_id": SAMPLE_PROJECT,
        "server": "git",
        "digest": "d",
        "definition": b'{"name":"log"}',
        "accepted_digest": "d",
        "accepted": b'{"name":"log"}',
        "seen_at": NOW,
    }
    return Fingerprint(name=name, **values | changed)


def sample_schema(number: int, **changes: object) -> StoredSchema:
    """A version of a database schema."""
    version = StoredSchema(
        project_id=SAMPLE_PROJECT,
        connection="shop",
        number=number,
        digest=f"d{number}",
        at=f"2026-07-{number:02d}T12:00:00.000Z",
        seen_at=f"2026-07-{number:02d}T12:00:00.000Z",
        content=b'{"tables":[]}',
        changes=b"[]",
    )
    return replace(version, **changes)


def sample_use(minute: int, of: int, **changes: object) -> StoredUse:
    """A use of a tool after the search of another minute."""
    use = StoredUse(
        use_id=f"{minute:032x}",
        search_id=f"{of:032x}",
        at=f"2026-07-28T{minute // 60:02d}:{minute % 60:02d}:00.000Z",
        project_id=SAMPLE_PROJECT,
        tool="git:log",
        outcome="ok",
    )
    return replace(use, **changes)


def sample_thread(thread_id: str) -> StoredThread:
    """A chat thread."""
    return StoredThread(
        thread_id=thread_id, project_id=SAMPLE_PROJECT, caller_id="local", name=HOSTILE
    )


async def append_turn(store: Store, thread_id: str, turn_id: str, **more: Any) -> int:
    """Write a question and its answer."""
    bodies = ({"content": HOSTILE, "calls": [{"id": "c", "n": 1.5}]}, {"content": "yes"})
    messages = [
        StoredMessage(
            number=0,
            turn_id=turn_id,
            role=role,
            body=body,
            notes={"policy": "keep"},
            at=minute_at(2),
        )
        for role, body in zip(("user", "assistant"), bodies, strict=True)
    ]
    return await store.threads.append_messages(thread_id, messages, now=minute_at(2), **more)


def sample_approval(number: int, **fields: Any) -> StoredApproval:
    """A call that waits for approval."""
    defaults: dict[str, Any] = {
        "binding": "b",
        "project_id": SAMPLE_PROJECT,
        "caller_id": "local",
        "who": "local",
        "tool": "git:push",
        "created_at": NOW,
        "expires_at": "2026-07-28T13:00:00.000Z",
    }
    return StoredApproval(approval_id=f"a{number}", **defaults | fields)


async def decide_approval(
    store: Store, approval_id: str, state: Literal["approved", "rejected"]
) -> bool:
    """Approve or reject a call."""
    return await store.approvals.decide(
        approval_id, state=state, by="anna", via="rest", comment=HOSTILE, edited=None, now=NOW
    )


async def fill_store(store: Store) -> None:
    """Write some rows of every kind."""
    await store.projects.add_references(["other"])
    await store.servers.save(sample_server("git", server_id="1", alias=HOSTILE))
    await store.catalog.save_snapshot(sample_snapshot("git"))
    await store.results.save(sample_result("one"))
    await store.audit.append([sample_record(1, query=HOSTILE, duration_ms=0.1), sample_record(2)])
    await store.usage.append([sample_search(1, query=HOSTILE)], [sample_use(2, 1)])


async def store_contents(store: Store) -> list[object]:
    """Read what `fill_store` wrote."""
    return [
        await store.servers.select(SAMPLE_PROJECT),
        await store.catalog.snapshots(SAMPLE_PROJECT),
        await store.results.get("one"),
        await store.audit.select(AuditFilter()),
        await store.usage.select(UsageFilter(project_id=SAMPLE_PROJECT)),
        {name: rows for name, rows in (await store.sizes()).items() if name in COUNTED},
    ]


COUNTED = {"projects", "servers", "snapshots", "results", "audit"}

WRITER = """
import sys
import anyio
from toolgate.base.ids import new_id
from toolgate.store import AuditFilter, make_store
from toolgate.testing.contracts.store.samples import sample_record

async def main():
    store = make_store(sys.argv[1])
    await store.open()
    for part in range(20):
        await store.audit.append([sample_record(part, record_id=new_id()) for _ in range(10)])
        await store.audit.select(AuditFilter())
    await store.close()

anyio.run(main)
"""
