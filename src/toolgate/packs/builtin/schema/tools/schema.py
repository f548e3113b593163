"""The tools: `schema_version`, `schema_changelog`, `type_info`, `schema_diagram`."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import chain
from typing import Annotated, Final

from pydantic import Field

from toolgate import Context, tool
from toolgate.base.tool_results import failed_result
from toolgate.databases.connections import Changelog, Connection, SchemaHistory, SchemaVersion
from toolgate.errors import ArgumentError, SettingError, ToolgateError
from toolgate.intents import find_dates
from toolgate.packs.builtin.schema import _answers as answers
from toolgate.packs.builtin.schema._name_lookup import TypeMatches, find_types
from toolgate.types import Json

_USUAL: Final = 10
"""Default number of changes, as in the schema detector."""

_MOST_DRAWN: Final = 60
"""Tables in a diagram (chosen: more cannot be told apart on a screen)."""

_READS: Final = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


@tool(title="Schema version", annotations=_READS)
async def schema_version(context: Context, connection: str | None = None) -> Json:
    """Return the version of the schema of a connected database, its date and its size.

    Args:
        context: Given by Toolgate.
        connection: Name of the database connection; optional if there is only one.
    """
    try:
        history = _history(context)
        chosen = _chosen(context, history, connection)
        return answers.version(await history.latest(chosen), chosen)
    except ToolgateError as error:
        return failed_result(str(error))


@tool(title="Schema changes", annotations=_READS)
async def schema_changelog(
    context: Context,
    since: str | None = None,
    until: str | None = None,
    limit: Annotated[int | None, Field(ge=1, le=1000)] = _USUAL,
    connection: str | None = None,
) -> Json:
    """List what changed in the schemas of connected databases, newest first.

    Tables, columns, types, keys and indexes that were added, removed, changed or renamed, with the
    time at which the change was detected.

    Args:
        context: Given by Toolgate.
        since: First day of the period, YYYY-MM-DD, or a moment such as 2025-10-15T14:30:00Z.
        until: Last day of the period, YYYY-MM-DD; inclusive. Or a moment.
        limit: Maximum number of changes.
        connection: Name of the database connection; omit it for the changes of all.
    """
    try:
        history = _history(context)
        searched = _searched(context, history, connection)
        first, last = _moment("since", since), _moment("until", until)
        period = f" since {first}" if first else ""
        period += f" until {last}" if last else ""
        most = limit or _USUAL
        if len(searched) == 1:
            changes = await history.changes(searched[0], since=first, until=last, limit=most)
            return answers.changelog(changes, searched[0], period=period)
        return await _changelogs(history, searched, (first, last), period=period, limit=most)
    except ToolgateError as error:
        return failed_result(str(error))


async def _changelogs(
    history: SchemaHistory,
    searched: Sequence[Connection],
    bounds: tuple[date | datetime | None, date | datetime | None],
    *,
    period: str,
    limit: int,
) -> Json:
    """Return the changes of several databases; an unreadable one does not affect the others."""
    logs: list[tuple[Connection, Changelog]] = []
    errors: list[ToolgateError] = []
    since, until = bounds
    for connection in searched:
        try:
            log = await history.changes(connection, since=since, until=until, limit=limit)
        except ToolgateError as error:
            errors.append(error)
        else:
            logs.append((connection, log))
    if not logs and errors:
        raise errors[0]
    return answers.changelogs(logs, list(map(str, errors)), period=period, limit=limit)


@tool(title="Schema diagram", annotations=_READS)
async def schema_diagram(
    context: Context, tables: str | None = None, connection: str | None = None
) -> Json:
    """Draw the tables of a connected database and their foreign keys, as Mermaid text.

    Args:
        context: Given by Toolgate.
        tables: Only tables whose names match one of these patterns, separated by commas; * matches
            any text. Required if there are more than 60 tables.
        connection: Name of the database connection; optional if there is only one.
    """
    try:
        history = _history(context)
        chosen = _chosen(context, history, connection)
        latest = await history.latest(chosen)
        names, unmatched = _drawn(latest, tables or "")
        return answers.diagram(latest, chosen, names, unmatched)
    except ToolgateError as error:
        return failed_result(str(error))


def _drawn(latest: SchemaVersion, patterns: str) -> tuple[list[str], list[str]]:
    """Return the tables that match the patterns, or all, and the patterns that match none.

    Raises:
        ArgumentError: There are none, or too many.
    """
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    all_tables = [table.name for table in latest.schema.tables if table.kind == "table"]
    matched = {
        pattern: [
            table.name
            for table in find_types(latest.schema, pattern).matches
            if table.name in all_tables
        ]
        for pattern in wanted
    }
    names = list(dict.fromkeys(chain.from_iterable(matched.values()))) if wanted else all_tables
    if not names:
        raise ArgumentError(
            f"No table of {latest.connection} matches {patterns[:80]!r}."
            if wanted
            else f"The schema of {latest.connection} has no tables.",
            hint="Call type_info without a name for all tables.",
        )
    if len(names) > _MOST_DRAWN:
        raise ArgumentError(
            f"{len(names)} tables are too many for one diagram.",
            allowed=f"At most {_MOST_DRAWN}.",
            hint="Pass some as tables, such as: order*, customers",
        )
    return names, [pattern for pattern in wanted if not matched[pattern]]


@tool(title="Types of a schema", annotations=_READS)
async def type_info(
    context: Context, type_name: str | None = None, connection: str | None = None
) -> Json:
    """Describe a type of a connected database: a table, a view, or a type with its own name.

    Columns with their types, keys, indexes, and tables that refer to it. Without a name: all types.

    Args:
        context: Given by Toolgate.
        type_name: Name of the type, singular or plural, in any case; * matches any text.
        connection: Name of the database connection; optional if there is only one.
    """
    try:
        history = _history(context)
        if not type_name or not type_name.strip():
            chosen = _chosen(context, history, connection)
            return answers.listing(await history.latest(chosen), chosen)
        return await _type_info(history, _searched(context, history, connection), type_name)
    except ToolgateError as error:
        return failed_result(str(error))


async def _type_info(history: SchemaHistory, connections: Sequence[Connection], name: str) -> Json:
    """Describe a type in the connections that have it; if it is ambiguous, list the choices."""
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
            hint="Pass one of them as connection.",
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
        raise SettingError("No schema history is stored here.", hint="Use a gateway with a store.")
    return history


def _chosen(context: Context, history: SchemaHistory, name: str | None) -> Connection:
    """Return the named connection, or the default of the pack's settings, or the only one."""
    usual = context.settings.get("connection")
    return history.connections.chosen(name or (usual if isinstance(usual, str) else ""))


def _searched(context: Context, history: SchemaHistory, name: str | None) -> list[Connection]:
    """Return the connections to search: the named or default one, or all."""
    if name or context.settings.get("connection") or not history.connections:
        return [_chosen(context, history, name)]
    return list(history.connections.values())


def _moment(name: str, text: str | None) -> date | datetime | None:
    """Parse a day or a time, in ISO format or as people write it."""
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
        f"{name} is {text[:40]!r}, which is not a date.",
        allowed="Allowed: YYYY-MM-DD, or a moment such as 2025-10-15T14:30:00Z.",
        hint="Correct or leave it out.",
    )
