"""What programs left behind: values that they stored, and programs that wait for a person."""

from dataclasses import dataclass

from toolgate.audit import Receipts
from toolgate.base.ids import utc_now
from toolgate.errors import HandleError
from toolgate.gateway.programs.helpers import VALUES, name_of_value
from toolgate.gateway.visible_catalog import VisibleCatalog
from toolgate.store import Store
from toolgate.types import Caller

__all__ = ["KeptProgram", "KeptPrograms", "KeptValue"]

_MOST = 1_000
"""Entries of each kind in a list (chosen)."""


@dataclass(frozen=True, kw_only=True)
class KeptValue:
    """A value that a program stored with `store(name, value)`."""

    id: str
    """To forget it."""

    name: str
    """As the program calls it; cut if it is long."""

    project: str
    """The project."""

    caller_id: str
    """Whose program stored it."""

    size_bytes: int
    """Bytes as JSON."""

    expires_at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class KeptProgram:
    """A program that waits for a person."""

    id: str
    """To let it go on, and to forget it."""

    state: str
    """`waiting`, or `running` once somebody lets it go on."""

    project: str
    """The project."""

    caller_id: str
    """The only caller who can let it go on."""

    created_at: str
    """UTC, ISO 8601."""

    expires_at: str
    """UTC, ISO 8601."""


class KeptPrograms:
    """Lists and deletes what programs left behind: administrators all of it, others their own."""

    def __init__(self, *, visible: VisibleCatalog, store: Store, receipts: Receipts) -> None:
        self._visible = visible
        self._store = store
        self._receipts = receipts

    async def values(self, caller: Caller) -> list[KeptValue]:
        """Values that have not expired, those that expire last first."""
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
        """Programs that wait and have not expired, newest first."""
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

    async def forget(self, caller: Caller, kept_id: str) -> None:
        """Delete a value, or a program that waits: it can no longer go on.

        Raises:
            HandleError: There is none of this id for this caller.
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
        """The only caller whose entries somebody sees; None: of all."""
        return None if self._visible.manages(caller) else caller.caller_id
