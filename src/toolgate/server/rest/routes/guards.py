"""Routes for guards."""

from dataclasses import asdict
from typing import Annotated

from toolgate.server.rest.models import PageOf, TableFields
from toolgate.server.rest.routing import Call, Routes
from toolgate.settings import GuardTable
from toolgate.types import Json

routes = Routes()

Guard = Annotated[Json, TableFields(GuardTable, ("source",))]
"""A guard: its id in the store, the keys that are set, and where it is defined."""


class GuardList(PageOf):
    """Guards."""

    guards: list[Guard]


@routes.get("guards", pages="guards", answer=GuardList)
async def guards(call: Call) -> Json:
    """List all guards, those of the file too."""
    entries = await call.gateway.admin.guards(call.caller)
    return {"guards": [_guard(*entry) for entry in entries]}


@routes.post(
    "guards",
    status=201,
    example={"tools": ["mail:send"], "approver": "user", "reason": "Read it first."},
)
async def add_guard(call: Call, body: Annotated[Json, TableFields(GuardTable)]) -> Guard:
    """Add a guard, by the keys of `[[guard]]`."""
    settings = {name: value for name, value in body.items() if value is not None}
    return _guard(*await call.gateway.admin.add_guard(call.caller, settings))


@routes.delete("guards/{name}")
async def remove_guard(call: Call, name: str) -> Json:
    """Remove a guard by its id; one of the file goes only with its lines there."""
    await call.gateway.admin.remove_guard(call.caller, name)
    return {"id": name}


def _guard(guard_id: str, table: GuardTable) -> Json:
    keys = {name: value for name, value in asdict(table).items() if value}
    return {"id": guard_id or None, **keys}
