"""Usage that counts against limits, in SQL."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from time import time

from sqlalchemy import Connection, delete, func, insert, select, update

from toolgate.store.engine import tables
from toolgate.store.engine.database import Insert, SqlDatabase
from toolgate.store.engine.text import escape_text
from toolgate.store.repositories.access import CallGrant, DayUsage, FullLimit

_MINUTE_S = 60.0
"""Seconds: limits are set per minute."""
# Days whose counts are stored: replicas whose clocks differ may still count for the day before.
_KEPT = timedelta(days=1)


async def add_day_usage(
    database: SqlDatabase, day: str, used: Mapping[str, DayUsage]
) -> dict[str, DayUsage]:
    """Add usage of a day by name. Returns the totals of these names."""
    table = tables.limit_days
    stored = {escape_text(name): name for name in used}
    # Sorted, so that two processes never deadlock.
    rows = [
        {"day": day, "name": key, "calls": used[name].calls, "tokens": used[name].tokens}
        for key, name in sorted(stored.items())
        if used[name] != DayUsage()
    ]
    insert = database.insert(table)
    adding = insert.on_conflict_do_update(
        index_elements=["day", "name"],
        set_={
            "calls": table.c.calls + insert.excluded.calls,
            "tokens": table.c.tokens + insert.excluded.tokens,
        },
    )
    totals = select(table.c.name, table.c.calls, table.c.tokens).where(
        table.c.day == day, table.c.name.in_(list(stored))
    )
    outdated = delete(table).where(table.c.day < str(date.fromisoformat(day) - _KEPT))

    def add(connection: Connection) -> dict[str, DayUsage]:
        if rows:
            connection.execute(adding, rows)
            connection.execute(outdated)
        return {
            stored[key]: DayUsage(calls=calls, tokens=tokens)
            for key, calls, tokens in connection.execute(totals)
        }

    return await (database.write(add) if rows else database.read(add))


@dataclass(frozen=True, kw_only=True)
class CallBucket:
    """A token bucket of calls that refills continuously."""

    name: str
    """Its key."""

    per_minute: int
    """Its capacity, and the calls that it refills per minute."""

    def take(
        self, connection: Connection, insert: Insert, *, up_to: int, now_s: float
    ) -> CallGrant:
        """Take calls; concurrent transactions wait for the row."""
        table = tables.limit_minutes
        full = {"name": self.name, "remaining": float(self.per_minute), "at": now_s}
        connection.execute(insert(table).on_conflict_do_nothing(), full)
        row = connection.execute(
            select(table.c.remaining, table.c.at).where(table.c.name == self.name).with_for_update()
        ).one()
        at = max(row.at, now_s)
        refilled = row.remaining + (at - row.at) * self.per_minute / _MINUTE_S
        remaining = min(float(self.per_minute), refilled)
        calls = min(up_to, int(remaining))
        connection.execute(
            update(table)
            .where(table.c.name == self.name)
            .values(remaining=remaining - calls, at=at)
        )
        if calls:
            return CallGrant(calls=calls)
        return CallGrant(calls=0, wait_s=(1.0 - remaining) * _MINUTE_S / self.per_minute)


@dataclass(frozen=True)
class CallSlots:
    """Slots of running calls, with the duration of their lease."""

    lease_s: float
    """Seconds until they expire."""

    def take(
        self, connection: Connection, limits: Mapping[str, int], call_id: str
    ) -> FullLimit | None:
        """Take a slot of each limit, or none; concurrent transactions with the same limit wait."""
        table = tables.limit_slots
        stored = {escape_text(name): name for name in limits}
        if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
            for key in sorted(stored):  # so that two processes never wait for each other
                lock = func.hashtextextended(f"toolgate limit {key}", 0)
                connection.execute(select(func.pg_advisory_xact_lock(lock)))
        now_s = _clock_s(connection)
        counts = (
            select(table.c.name, func.count())
            .where(table.c.name.in_(list(stored)), table.c.until > now_s)
            .group_by(table.c.name)
        )
        for key, running in connection.execute(counts):
            name = stored[key]
            if running >= limits[name]:
                return FullLimit(name=name, running=running)
        row = {"call_id": call_id, "until": now_s + self.lease_s}
        connection.execute(insert(table), [{"name": key, **row} for key in stored])
        return None

    def renew(self, connection: Connection, call_ids: Collection[str]) -> None:
        """Extend the slots of calls by a lease from now."""
        table = tables.limit_slots
        statement = update(table).where(table.c.call_id.in_(list(call_ids)))
        connection.execute(statement.values(until=_clock_s(connection) + self.lease_s))

    def free(self, connection: Connection, call_ids: Collection[str]) -> None:
        """Delete the slots of calls, and expired ones."""
        table = tables.limit_slots
        connection.execute(
            delete(table).where(
                table.c.call_id.in_(list(call_ids)) | (table.c.until <= _clock_s(connection))
            )
        )


def _clock_s(connection: Connection) -> float:
    """Return the seconds since 1970 by the database's clock, which all its processes share."""
    if connection.dialect.name != "postgresql":
        return time()
    return float(
        connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one()
    )
