"""The tools of the pack: `schema_version`, `schema_changelog`, `type_info`."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Final

from pydantic import Field

from toolgate import Context, tool
from toolgate.databases.connections import Connection, SchemaHistory, SchemaVersion
from toolgate.errors import ArgumentError, SettingError, ToolgateError
from toolgate.intents import find_dates
from toolgate.packs.builtin.schema import _answers as answers
from toolgate.packs.builtin.schema._name_lookup import TypeMatches, find_types
from toolgate.types import Json

__all__ = ["schema_changelog", "schema_version", "type_info"]

_USUAL: Final = 10
"""Changes when nobody says how many: as the detector reads them."""

_READS: Final = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


@tool(title="Schema version", annotations=_READS)
async def schema_version(context: Context, connection: str | None = None) -> Json:
    """Tell which version the schema of a connected database has, since when, and how large it is.

    Args:
        context: Given by Toolgate.
        connection: Name of the database connection; may be left out where there is only one.
    """
    try:
        history = _history(context)
        chosen = _chosen(context, history, connection)
        return answers.version(await history.latest(chosen), chosen)
    except ToolgateError as error:
        return answers.failure(str(error))


@tool(title="Schema changes", annotations=_READS)
async def schema_changelog(
    context: Context,
    since: str | None = None,
    until: str | None = None,
    limit: Annotated[int | None, Field(ge=1, le=1000)] = _USUAL,
    connection: str | None = None,
) -> Json:
    """List what changed in the schema of a connected database, newest first.

    Tables, columns, types, keys and indexes that were added, removed, changed or renamed, with the
    time at which it was seen.

    Args:
        context: Given by Toolgate.
        since: First day of the period, YYYY-MM-DD, or a moment such as 2025-10-15T14:30:00Z.
        until: Last day of the period, YYYY-MM-DD; that day is inside. Or a moment.
        limit: At most as many changes.
        connection: Name of the database connection; may be left out where there is only one.
    """
    try:
        history = _history(context)
        chosen = _chosen(context, history, connection)
        first, last = _moment("since", since), _moment("until", until)
        changes = await history.changes(chosen, since=first, until=last, limit=limit or _USUAL)
    except ToolgateError as error:
        return answers.failure(str(error))
    period = f" since {first}" if first else ""
    period += f" until {last}" if last else ""
    return answers.changelog(changes, chosen, period=period)


@tool(title="Types of a schema", annotations=_READS)
async def type_info(
    context: Context, type_name: str | None = None, connection: str | None = None
) -> Json:
    """Describe a type of a connected database: a table, a view, or a type with its own name.

    Columns with their types, keys, indexes, what refers to it. Without a name: all types.

    Args:
        context: Given by Toolgate.
        type_name: Name of the type, singular or plural, in any case; * stands for any text.
        connection: Name of the database connection; may be left out where there is only one.
    """
    try:
        history = _history(context)
        if not type_name or not type_name.strip():
            chosen = _chosen(context, history, connection)
            return answers.listing(await history.latest(chosen), chosen)
        return await _type_info(history, _searched(context, history, connection), type_name)
    except ToolgateError as error:
        return answers.failure(str(error))


async def _type_info(history: SchemaHistory, connections: Sequence[Connection], name: str) -> Json:
    """The type in the connections that have it; of several, the choice is left to who asks."""
    looked: list[tuple[Connection, SchemaVersion, TypeMatches]] = []
    problem: ToolgateError | None = None
    for connection in connections:
        try:
            version = await history.latest(connection)
        except ToolgateError as error:
            problem = error  # another connection may have it
            continue
        looked.append((connection, version, find_types(version.schema, name)))
    having = [entry for entry in looked if entry[2].matches]
    if len(having) == 1:
        connection, version, result = having[0]
        if len(result.matches) == 1:
            return answers.type_details(version, connection, result.matches[0])
        return answers.choices(version, connection, name, result.matches)
    if having:
        raise ArgumentError(
            f"There is a type {name[:80]!r} in several connections.",
            allowed=f"Connections: {', '.join(connection.name for connection, _, _ in having)}.",
            hint="Name one as connection.",
        )
    if not looked and problem is not None:
        raise problem
    for connection, version, _ in looked:
        for table, reason in version.schema.unread.items():
            if table.casefold() == name.strip().casefold():
                raise ArgumentError(f"{table!r} of {connection.name} cannot be read: {reason}.")
    near = list(dict.fromkeys(similar for _, _, result in looked for similar in result.near))
    several = len(connections) > 1
    where = "any connection" if several else f"the schema of {connections[0].name}"
    raise ArgumentError(
        f"There is no type {name[:80]!r} in {where}.",
        hint=f"Nearest: {', '.join(near[:5])}."
        if near
        else "Call type_info without a name for all types.",
    )


def _history(context: Context) -> SchemaHistory:
    history = context.schemas
    if not isinstance(history, SchemaHistory):
        raise SettingError(
            "Nothing is kept of schemas here.", hint="Ask a gateway that has a store."
        )
    return history


def _chosen(context: Context, history: SchemaHistory, name: str | None) -> Connection:
    """The connection that is named, else the one of the pack's settings, else the only one."""
    usual = context.settings.get("connection")
    return history.connections.chosen(name or (usual if isinstance(usual, str) else ""))


def _searched(context: Context, history: SchemaHistory, name: str | None) -> list[Connection]:
    """Where a type is looked for: in the connection that is meant, or in all."""
    if name or context.settings.get("connection") or not history.connections:
        return [_chosen(context, history, name)]
    return list(history.connections.values())


def _moment(name: str, text: str | None) -> date | datetime | None:
    """A day or a moment, as ISO writes it or as people say it."""
    text = (text or "").strip()
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    dates = find_dates(text, today=datetime.now(UTC))
    if len(dates) == 1 and dates[0].end - dates[0].start >= len(text) - 2:
        moment = dates[0].since if name == "since" else dates[0].last_day
        if moment is not None:
            return moment
    raise ArgumentError(
        f"{name} is {text[:40]!r}, which is no date.",
        allowed="Allowed: YYYY-MM-DD, or a moment such as 2025-10-15T14:30:00Z.",
        hint="Correct or leave it out.",
    )
