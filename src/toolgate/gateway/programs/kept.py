"""What programs leave in the store: saved values, and programs that wait for a person."""

from dataclasses import dataclass

from toolgate.base import json_text
from toolgate.base.ids import utc_now
from toolgate.errors import HandleError
from toolgate.gateway.parts import GatewayContext
from toolgate.gateway.programs.approval_list import waiting_of
from toolgate.gateway.programs.helpers import VALUES, name_of_value
from toolgate.gateway.programs.run import ParkedCall
from toolgate.store import Store
from toolgate.types import Caller, Json, json_array, json_object

_MOST = 1_000
"""Entries of each kind in a list (chosen)."""


@dataclass(frozen=True, kw_only=True)
class KeptValue:
    """A value that a program stored with `store(name, value)`."""

    id: str
    """The id for deleting it."""

    name: str
    """The name in the program; cut if it is long."""

    project: str
    """The project."""

    caller_id: str
    """The caller whose program stored it."""

    size_bytes: int
    """Size in bytes, as JSON."""

    expires_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class KeptProgram:
    """A program that waits for a person."""

    id: str
    """The id for resuming or deleting it."""

    state: str
    """`waiting`, or `running` once it has been resumed."""

    project: str
    """The project."""

    caller_id: str
    """The only caller that can resume it."""

    created_at: str
    """When it was parked for the calls that it waits for. UTC, ISO 8601."""

    expires_at: str
    """UTC, ISO 8601."""


class KeptPrograms:
    """Stored values and waiting programs: administrators see all of them, others their own."""

    def __init__(self, context: GatewayContext, store: Store) -> None:
        self._visible = context.visible
        self._store = store
        self._receipts = context.receipts
        self._approvals = context.guards.approvals

    async def values(self, caller: Caller) -> list[KeptValue]:
        """Values that have not expired, latest expiry first."""
        rows = await self._store.results.select(
            prefix=VALUES, caller_id=self._whose(caller), now=utc_now(), limit=_MOST
        )
        return [
            KeptValue(
                id=row.handle,
                name=name_of_value(row.handle),
                project=row.project_id,
                caller_id=row.caller_id,
                size_bytes=row.size_bytes,
                expires_at=row.expires_at,
            )
            for row in rows
        ]

    async def programs(self, caller: Caller) -> list[KeptProgram]:
        """Waiting programs that have not expired, newest first."""
        rows = await self._store.approvals.programs.select(
            caller_id=self._whose(caller), now=utc_now(), limit=_MOST
        )
        return [
            KeptProgram(
                id=row.program_id,
                state=row.state,
                project=row.project_id,
                caller_id=row.caller_id,
                created_at=row.created_at,
                expires_at=row.expires_at,
            )
            for row in rows
        ]

    async def waiting(self, caller: Caller, program_id: str) -> Json:
        """What a caller's own program waits for, as `ProgramError.waiting`; empty: it does not."""
        row = await self._store.approvals.programs.get(program_id)
        owner = None if row is None else (row.project_id, row.caller_id)
        if row is None or owner != (caller.project_id, caller.caller_id) or row.state != "waiting":
            return {}
        calls = json_array(json_object(json_text.loads(row.body)).get("calls"))
        parked = [ParkedCall(**json_object(call)) for call in calls]
        return waiting_of(program_id, parked, page=self._approvals.page)

    async def forget(self, caller: Caller, kept_id: str) -> None:
        """Delete a value, or a waiting program, which then cannot be resumed.

        Raises:
            HandleError: The caller has none with this id.
        """
        results, programs = self._store.results, self._store.approvals.programs
        is_value = kept_id.startswith(VALUES)
        found = await (results.get(kept_id) if is_value else programs.get(kept_id))
        if found is None or self._whose(caller) not in {None, found.caller_id}:
            raise HandleError(
                f"There is no value and no program {kept_id[:120]!r}.",
                hint="See: toolgate run --kept",
            )
        async with self._receipts.change(caller, "forget_program", {"id": kept_id}):
            await (results.remove(kept_id) if is_value else programs.remove(kept_id))

    def _whose(self, caller: Caller) -> str | None:
        """The only caller whose entries are shown; None if all are."""
        return None if self._visible.manages(caller) else caller.caller_id
