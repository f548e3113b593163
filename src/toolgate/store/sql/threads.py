"""Chat threads in SQL."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    bindparam,
    case,
    delete,
    func,
    select,
    update,
)

from toolgate.store.engine import tables
from toolgate.store.engine.database import Insert, SqlRepository, reads, writes
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.threads import (
    PROJECT_THREAD,
    RESPONSE_PREFIX,
    StoredArtifact,
    StoredMessage,
    StoredSpending,
    StoredThread,
    TurnOpening,
)
from toolgate.types import Json

_ROW_BYTES = 200
"""Estimated bytes of a row besides its text."""

# The statements of each turn are built once: building a statement again, and looking up its
# compiled form, takes several times as long as running it.
_THREADS, _MESSAGES, _SPENDING = (
    tables.threads,
    tables.thread_messages,
    tables.thread_spending,
)
_MINE = _THREADS.c.thread_id == bindparam("its_id")
_FREE = (_THREADS.c.running == "") | (_THREADS.c.running_until < bindparam("at"))
_FIND = select(_THREADS).where(
    _THREADS.c.project_id == bindparam("project"),
    _THREADS.c.caller_id == bindparam("caller"),
    _THREADS.c.name == bindparam("called"),
)
_TAKEN: dict[str, Any] = {
    "running": bindparam("turn"),
    "running_until": bindparam("until"),
    "used_at": bindparam("at"),
}
_TAKE = update(_THREADS).where(_MINE, _FREE).values(**_TAKEN)
_TAKE_OVER = (
    update(_THREADS)
    .where(_MINE, _FREE | (_THREADS.c.running == bindparam("over")))
    .values(**_TAKEN)
)
_GROW = (
    update(_THREADS)
    .where(_MINE)
    .values(
        last_number=_THREADS.c.last_number + bindparam("more"),
        used_at=bindparam("at"),
        size_bytes=_THREADS.c.size_bytes + bindparam("bytes"),
    )
    .returning(_THREADS.c.last_number)
)
_GROW_WITH_STATE = _GROW.values(state=bindparam("now_in"))
_RUNS = _THREADS.c.running == bindparam("turn")
_FREED: dict[str, Any] = {
    "running": case((_RUNS, ""), else_=_THREADS.c.running),
    "running_until": case((_RUNS, ""), else_=_THREADS.c.running_until),
}
_GROW_AND_END = _GROW.values(**_FREED)
_GROW_AND_END_WITH_STATE = _GROW_WITH_STATE.values(**_FREED)
_SAY = _MESSAGES.insert()
_SPEND = _SPENDING.insert()
_SPENT = select(func.coalesce(func.max(_SPENDING.c.number), 0)).where(
    _SPENDING.c.thread_id == bindparam("its_id")
)
_BETWEEN = select(_MESSAGES).where(
    _MESSAGES.c.thread_id == bindparam("its_id"),
    _MESSAGES.c.number > bindparam("after"),
    _MESSAGES.c.number < bindparam("before"),
)
_ALL = _BETWEEN.order_by(_MESSAGES.c.number)
_NEWEST = _BETWEEN.order_by(_MESSAGES.c.number.desc()).limit(bindparam("most"))
_NO_END = 2**31 - 1
"""Largest number of a message: columns have 32 bits."""


class SqlThreads(SqlRepository):
    """Implements `ThreadRepository`."""

    async def get(self, project_id: str, caller_id: str, name: str) -> StoredThread | None:
        """A thread by name; None if it does not exist."""
        return await self.database.read(lambda opened: _find(opened, project_id, caller_id, name))

    @reads
    def select(
        self,
        opened: Connection,
        project_id: str,
        caller_id: str | None,
        *,
        with_responses: bool = True,
        limit: int = 100,
    ) -> list[StoredThread]:
        """Threads, most recently used first; see `ThreadRepository.select`."""
        table = tables.threads
        query = select(table).where(table.c.project_id == escape_text(project_id))
        if caller_id is not None:
            query = query.where(table.c.caller_id == escape_text(caller_id))
        if not with_responses:
            query = query.where(~is_response())
        query = query.order_by(table.c.used_at.desc(), table.c.thread_id.desc()).limit(limit)
        return [_thread_from(row) for row in opened.execute(query).mappings()]

    @writes
    def begin_turn(
        self,
        opened: Connection,
        thread: StoredThread,
        *,
        turn_id: str,
        until: str,
        now: str,
        over: str = "",
        opening: TurnOpening | None = None,
    ) -> StoredThread:
        """Create the thread if needed, and claim the right to run a turn in it."""
        stored = _begin(opened, self.database.insert, thread, turn_id, until, now, over)
        if opening is not None and stored.running == turn_id:
            _open(opened, stored, opening, now)
        return stored

    async def extend_turn(self, thread_id: str, *, turn_id: str, until: str) -> bool:
        """Keep a turn alive. False if another turn has taken over."""
        table = tables.threads
        condition = (table.c.thread_id == thread_id) & (table.c.running == turn_id)
        statement = update(table).where(condition).values(running_until=until)
        return await self.database.write(lambda opened: opened.execute(statement).rowcount > 0)

    @writes
    def append_messages(
        self,
        opened: Connection,
        thread_id: str,
        messages: Sequence[StoredMessage],
        *,
        artifacts: Sequence[StoredArtifact] = (),
        spending: Sequence[StoredSpending] = (),
        state: Json | None = None,
        ends: str = "",
        now: str,
    ) -> int:
        """Write the messages of a turn and number them. Returns the last number."""
        last = _append(opened, thread_id, messages, state, ends, now)
        _save_extras(opened, self.database.insert, thread_id, artifacts, spending, now)
        return last

    async def messages(
        self,
        thread_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
    ) -> list[StoredMessage]:
        """Messages between two numbers, oldest first; with a limit the newest of them."""
        return await self.database.read(
            lambda opened: _messages(opened, thread_id, after, before, limit)
        )

    async def artifacts(self, thread_id: str, artifact_ids: Sequence[str]) -> list[StoredArtifact]:
        """Existing artifacts with these ids."""
        return await self._artifacts(thread_id, artifact_ids) if artifact_ids else []

    @reads
    def _artifacts(
        self, opened: Connection, thread_id: str, artifact_ids: Sequence[str]
    ) -> list[StoredArtifact]:
        table = tables.thread_artifacts
        query = select(table).where(
            table.c.thread_id == thread_id, table.c.artifact_id.in_(artifact_ids)
        )
        return [
            StoredArtifact(
                artifact_id=row["artifact_id"],
                turn_id=row["turn_id"],
                body=_unpacked(zlib.decompress(row["body"]).decode()),
            )
            for row in opened.execute(query).mappings()
        ]

    @reads
    def spending(self, opened: Connection, thread_id: str) -> list[StoredSpending]:
        """Costs of a thread, oldest first."""
        table = tables.thread_spending
        query = select(table).where(table.c.thread_id == thread_id).order_by(table.c.number)
        rows: list[StoredSpending] = []
        for row in opened.execute(query).mappings():
            values = dict(row)
            del values["thread_id"], values["number"]
            rows.append(StoredSpending(**values))
        return rows

    @writes
    def save_settings(
        self, opened: Connection, thread: StoredThread, settings: Json, *, now: str
    ) -> StoredThread:
        """Create the thread if needed, and save its settings."""
        stored = _get_or_create(opened, self.database.insert, thread, now)
        table = tables.threads
        condition = table.c.thread_id == stored.thread_id
        opened.execute(update(table).where(condition).values(settings=_packed(settings)))
        return replace(stored, settings=settings)

    @writes
    def drop_turn(self, opened: Connection, thread_id: str, turn_id: str) -> int:
        """Delete the messages of a turn; others keep their numbers. Returns how many existed."""
        gone = 0
        for table in (tables.thread_artifacts, tables.thread_messages):
            condition = (table.c.thread_id == thread_id) & (table.c.turn_id == turn_id)
            gone = opened.execute(delete(table).where(condition)).rowcount
        return gone

    @writes
    def clear(self, opened: Connection, thread_id: str, *, now: str) -> int:
        """Delete all messages but not the settings. Returns how many existed."""
        gone = 0
        for table in (tables.thread_artifacts, tables.thread_messages):
            gone = opened.execute(delete(table).where(table.c.thread_id == thread_id)).rowcount
        table = tables.threads
        values = {"state": "{}", "size_bytes": _ROW_BYTES, "used_at": now}
        opened.execute(update(table).where(table.c.thread_id == thread_id).values(**values))
        return gone

    async def delete(self, thread_id: str) -> bool:
        """Delete a thread with its contents. False if it does not exist."""
        table = tables.threads
        statement = delete(table).where(table.c.thread_id == escape_text(thread_id))
        return await self.database.write(lambda opened: opened.execute(statement).rowcount > 0)


def _find(opened: Connection, project_id: str, caller_id: str, name: str) -> StoredThread | None:
    """Return a thread by name."""
    values = {
        "project": escape_text(project_id),
        "caller": escape_text(caller_id),
        "called": escape_text(name),
    }
    row = opened.execute(_FIND, values).mappings().first()
    return None if row is None else _thread_from(row)


def is_response() -> ColumnElement[bool]:
    """The condition for threads of single responses."""
    # Not LIKE, which ignores case in SQLite only.
    start = func.substr(tables.threads.c.name, 1, len(RESPONSE_PREFIX))
    return start == RESPONSE_PREFIX


def _get_or_create(
    opened: Connection, insert: Insert, thread: StoredThread, now: str
) -> StoredThread:
    """Return the thread of this name, which is created if it does not exist."""
    row = {
        "thread_id": thread.thread_id,
        "project_id": escape_text(thread.project_id),
        "caller_id": escape_text(thread.caller_id),
        "name": escape_text(thread.name),
        "settings": _packed(thread.settings),
        "state": _packed(thread.state),
        "last_number": 0,
        "running": "",
        "running_until": "",
        "created_at": now,
        "used_at": now,
        "size_bytes": _ROW_BYTES,
    }
    stored = _find(opened, thread.project_id, thread.caller_id, thread.name)
    if stored is not None:
        return stored
    opened.execute(insert(tables.threads).on_conflict_do_nothing(), row)
    stored = _find(opened, thread.project_id, thread.caller_id, thread.name)
    assert stored is not None
    return stored


def _begin(
    opened: Connection,
    insert: Insert,
    thread: StoredThread,
    turn_id: str,
    until: str,
    now: str,
    over: str,
) -> StoredThread:
    """Claim the right to run a turn, if no other turn runs."""
    stored = _get_or_create(opened, insert, thread, now)
    values = {"its_id": stored.thread_id, "turn": turn_id, "until": until, "at": now}
    if over:
        taken = opened.execute(_TAKE_OVER, {**values, "over": over})
    else:
        taken = opened.execute(_TAKE, values)
    if taken.rowcount:
        return replace(stored, running=turn_id, running_until=until, used_at=now)
    again = _find(opened, thread.project_id, thread.caller_id, thread.name)
    return stored if again is None else again


def _open(opened: Connection, thread: StoredThread, opening: TurnOpening, now: str) -> None:
    """Read what a turn needs, and write its first messages."""
    project = _find(opened, thread.project_id, PROJECT_THREAD, PROJECT_THREAD)
    messages = _messages(opened, thread.thread_id, opening.read_after(thread), None, None)
    first = opening.first_messages(thread, {} if project is None else project.settings, messages)
    if first:
        _append(opened, thread.thread_id, first, None, "", now)


def _append(
    opened: Connection,
    thread_id: str,
    messages: Sequence[StoredMessage],
    state: Json | None,
    ends: str,
    now: str,
) -> int:
    """Number and write messages, and update their thread."""
    size = sum(_ROW_BYTES + len(str(message.body)) for message in messages)
    grown: dict[str, Any] = {"its_id": thread_id, "more": len(messages), "at": now, "bytes": size}
    # First, since it locks the row: two turns never take the same numbers.
    if ends:
        grown["turn"] = ends
    if state is None:
        grows = opened.execute(_GROW_AND_END if ends else _GROW, grown)
    else:
        statement = _GROW_AND_END_WITH_STATE if ends else _GROW_WITH_STATE
        grows = opened.execute(statement, {**grown, "now_in": _packed(state)})
    last: int | None = grows.scalar_one_or_none()
    if last is None or not messages:
        return last or 0
    first = last - len(messages) + 1
    opened.execute(
        _SAY,
        [
            {
                "thread_id": thread_id,
                "number": first + offset,
                "turn_id": message.turn_id,
                "role": message.role,
                "body": _packed(message.body),
                "notes": _packed(message.notes),
                "at": message.at or now,
            }
            for offset, message in enumerate(messages)
        ],
    )
    return last


def _save_extras(
    opened: Connection,
    insert: Insert,
    thread_id: str,
    artifacts: Sequence[StoredArtifact],
    spending: Sequence[StoredSpending],
    now: str,
) -> None:
    """Write the artifacts and costs of messages."""
    if artifacts:
        statement = insert(tables.thread_artifacts).on_conflict_do_nothing()
        rows = [
            {
                "artifact_id": artifact.artifact_id,
                "thread_id": thread_id,
                "turn_id": artifact.turn_id,
                "body": zlib.compress(_packed(artifact.body).encode(), 3),
            }
            for artifact in artifacts
        ]
        opened.execute(statement, rows)
    if spending:
        begin = opened.execute(_SPENT, {"its_id": thread_id}).scalar_one()
        opened.execute(
            _SPEND,
            [
                {**vars(row), "thread_id": thread_id, "number": number, "at": row.at or now}
                for number, row in enumerate(spending, begin + 1)
            ],
        )


def _messages(
    opened: Connection, thread_id: str, after: int, before: int | None, limit: int | None
) -> list[StoredMessage]:
    """Return messages, oldest first; with a limit the newest of them."""
    values: dict[str, Any] = {
        "its_id": thread_id,
        "after": after,
        "before": _NO_END if before is None else before,
    }
    if limit is None:
        return [_message_from(row) for row in opened.execute(_ALL, values).mappings()]
    newest = opened.execute(_NEWEST, {**values, "most": limit}).mappings()
    return [_message_from(row) for row in newest][::-1]


def _thread_from(row: RowMapping) -> StoredThread:
    values = dict(row)
    del values["size_bytes"]
    for name in ("project_id", "caller_id", "name"):
        values[name] = unescape_text(values[name])
    for name in ("settings", "state"):
        values[name] = _unpacked(values[name])
    return StoredThread(**values)


def _message_from(row: RowMapping) -> StoredMessage:
    values = dict(row)
    del values["thread_id"]
    for name in ("body", "notes"):
        values[name] = _unpacked(values[name])
    return StoredMessage(**values)


def _packed(value: Json) -> str:
    """Return JSON in ASCII with escaped NUL and surrogates, which every database stores."""
    return json.dumps(value, separators=(",", ":"))


def _unpacked(text: str) -> Json:
    return cast("Json", json.loads(text))
