"""Guards for calls: rules for arguments, secrets and sizes."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Literal, Protocol, TypeAlias, cast

import jsonschema_rs

from toolgate.base import json_text
from toolgate.databases.sql_guard import check_statement
from toolgate.errors import GuardError, RpcError, SettingError
from toolgate.security.guards.argument_texts import (
    Place,
    as_read,
    is_deep,
    texts_in,
    unpacked,
    values_at,
)
from toolgate.security.guards.path_readings import PathReadings, TooManyReadingsError
from toolgate.security.guards.secret_detection import secret_scanner
from toolgate.settings import GuardTable
from toolgate.types import Json, json_object

_DEEPEST = 100
"""Largest nesting depth of arguments; jsonschema-rs ends the process at some tens of thousands."""
# Combinations of project and tool whose guards are cached. Chosen.
_KEPT = 50_000
_LONGEST_SQL = 20_000
"""Characters of a statement; checking more would delay other calls."""


ArgumentKind: TypeAlias = Literal["call", "completion", "uri"]
"""Arguments of a tool or prompt; arguments of a completion, some of which are still missing; a
URI and its variables, which no schema covers."""

_WHOLE_PATH = re.compile(r"\^(?!\.[*+])")
"""Expressions that match a path from its beginning; others match any part of it."""


_OF_TEXTS = frozenset({"anyOf", "const", "enum", "oneOf", "type"})
"""Keywords that what is in a text cannot fit where the text does."""


class GuardedTool(Protocol):
    """The properties of a tool that guards need."""

    @property
    def key(self) -> str:
        """The key `server:tool`."""
        ...

    @property
    def server(self) -> str:
        """The name of its server."""
        ...

    @property
    def digest(self) -> str:
        """The digest of its definition."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it is marked as read-only."""
        ...

    @property
    def destructive(self) -> bool:
        """Whether it may be destructive."""
        ...


@dataclass(frozen=True)
class _Compiled:
    """A guard of the configuration, compiled."""

    table: GuardTable
    schemas: Mapping[ArgumentKind, Any]
    deny: Mapping[str, Sequence[tuple[str, Any]]]
    expressions: tuple[str, ...]
    """All expressions that texts in arguments are matched against."""

    def with_known_names(self, arguments: Json) -> Iterator[Json]:
        """Yield arguments, and the same with names in the letters that the schema has."""
        yield arguments
        # Go's encoding/json takes `Path` for `path`, which a rule for `path` would not see.
        properties = json_object(self.table.arguments.get("properties"))
        known = {name.casefold(): name for name in properties}
        strange = {name: known.get(name.casefold(), name) for name in arguments}
        if any(name != usual for name, usual in strange.items()):
            others = {usual: arguments[name] for name, usual in strange.items() if name != usual}
            yield {name: arguments[name] for name in arguments if strange[name] == name} | others

    def fits(self, project_id: str, tool: GuardedTool, *, is_trusted: bool) -> bool:
        table = self.table
        if table.projects and project_id not in table.projects:
            return False
        if table.hint == "read_only" and not (is_trusted and tool.read_only):
            return False
        if table.hint == "destructive" and is_trusted and not tool.destructive:
            return False
        return any(_covers(pattern, tool.key, tool.server) for pattern in table.tools)

    def fits_server(self, project_id: str, server: str) -> bool:
        """Return whether it covers all of a server, and so its resources and prompts too."""
        table = self.table
        if table.hint or (table.projects and project_id not in table.projects):
            return False
        return any(
            _covers(pattern.removesuffix(":*"), f"{server}:", server) for pattern in table.tools
        )


class CallGuard:
    """All guards of one call, combined."""

    def __init__(self, parts: Sequence[_Compiled], *, folder: str | None = None) -> None:
        self._parts = parts
        self._folder = folder
        tables = [part.table for part in parts]
        self.approver: Literal["", "user", "admin"] = ""
        """Who has to approve a call; empty: nobody."""
        for name in ("user", "admin"):  # the stricter one counts
            if any(table.approver == name for table in tables):
                self.approver = name
        self.reason = " ".join(
            dict.fromkeys(table.reason for table in tables if table.approver and table.reason)
        )
        """Why approval is needed."""
        self._masks = {
            where: next(
                (mode for mode in ("block", "mask") if any(mode == of(table) for table in tables)),
                "",
            )
            for where, of in _MODES.items()
        }
        self._max_bytes = {
            where: min((size for table in tables if (size := of(table))), default=0)
            for where, of in _SIZES.items()
        }

    def __str__(self) -> str:
        """Describe for people what it does."""
        tables = [part.table for part in self._parts]
        sentences = [f"Each call needs approval ({self.approver})."] if self.approver else []
        if any(table.arguments or table.deny for table in tables):
            sentences.append("Arguments are checked.")
        sentences += [
            f"Secrets in {where}s are {'masked' if mode == 'mask' else 'blocked'}."
            for where, mode in self._masks.items()
            if mode
        ]
        sentences += [
            f"Maximum size of {'arguments' if where == 'argument' else 'results'}: {limit:,} bytes."
            for where, limit in self._max_bytes.items()
            if limit
        ]
        places = dict.fromkeys(table.source for table in tables if table.source)
        return (
            " ".join([*sentences, *(f"[{source}]" for source in places)])
            or "A guard without checks."
        )

    @cached_property
    def _readings(self) -> PathReadings:
        expressions = chain.from_iterable(part.expressions for part in self._parts)
        return PathReadings(expressions, self._folder)

    @property
    def reads_files(self) -> bool:
        """Whether symbolic links are followed, which may be slow."""
        return self._folder is not None and any(part.expressions for part in self._parts)

    @property
    def looks_at_results(self) -> bool:
        """Whether results are checked or changed."""
        return bool(self._masks["result"] or self._max_bytes["result"])

    @property
    def looks_for_secrets(self) -> bool:
        """Whether secrets are masked or blocked in either direction."""
        return bool(self._masks["argument"] or self._masks["result"])

    def arguments(
        self, key: str, arguments: Json, kind: ArgumentKind = "call"
    ) -> tuple[Json, Json]:
        """Check and mask arguments; return them as passed on, and notes for the audit.

        Args:
            key: The tool, prompt or resource that receives them, for errors.
            arguments: The arguments by name.
            kind: What they belong to.

        Raises:
            GuardError: The arguments are not allowed.
        """
        inner, places = self._unpacked(key, arguments)
        self._check_size("argument", key, arguments)
        try:
            # Every guard has to agree; the first that does not gives the reason.
            for part in self._parts:
                # The text itself too: another server may use it as it is.
                for given in (arguments, inner) if places else (arguments,):
                    self._check_schema(part, key, given, kind, places)
                    self._check_denied(part, key, given)
                    self._check_sql(part, key, given)
        except TooManyReadingsError as error:
            raise GuardError(
                f"An argument of {key} is encoded too often to be checked by a guard.",
                hint="Send it as plain text.",
            ) from error
        return self._without_secrets("argument", key, arguments)

    def result(self, key: str, result: Json) -> tuple[Json, Json]:
        """Check and mask a result; return it as passed on, and notes for the audit.

        Raises:
            GuardError: The result is not allowed.
        """
        self._check_size("result", key, result)
        return self._without_secrets("result", key, result)

    def answers(self, key: str, answers: Json) -> tuple[Json, Json]:
        """Check and mask a person's answers to the tool; return them as passed on, and notes.

        Raises:
            GuardError: The answers are not allowed.
        """
        self._check_size("argument", key, answers)
        return self._without_secrets("argument", key, answers)

    def notice(self, key: str, params: Json) -> tuple[Json, Json]:
        """Mask, at least, the secrets in what a server sends during a call."""
        del key
        if not self._masks["result"]:
            return params, {}
        counts: Counter[str] = Counter()
        return cast("Json", secret_scanner().mask_json(params, counts)), {}

    def error(self, error: RpcError) -> RpcError:
        """Remove from an error of the server the secrets that results must not contain."""
        if not self._masks["result"]:
            return error
        counts: Counter[str] = Counter()
        message = secret_scanner().mask(error.message, counts)
        return RpcError(error.rpc_code, message, secret_scanner().mask_json(error.data, counts))

    def _check_size(self, where: str, key: str, value: Json) -> None:
        limit = self._max_bytes[where]
        if not limit:
            return
        size = len(json_text.dumps(value))
        if size > limit:
            subject = "arguments are" if where == "argument" else "result is"
            raise GuardError(
                f"The {subject} {size:,} bytes, and {limit:,} are allowed for {key}.",
                hint="Send less at a time." if where == "argument" else "Ask for less at a time.",
            )

    def _unpacked(self, key: str, arguments: Json) -> tuple[Json, frozenset[Place]]:
        """Return arguments with JSON in texts as what it contains, and where that was."""
        error = GuardError(
            f"The arguments of {key} are nested deeper than {_DEEPEST} levels.",
            hint="Send less at a time.",
        )
        if is_deep(arguments, _DEEPEST):
            raise error
        try:
            inner, places = unpacked(arguments)
        except RecursionError:
            raise error from None
        if is_deep(inner, _DEEPEST):
            raise error
        return inner, places

    def _check_schema(
        self,
        part: _Compiled,
        key: str,
        arguments: Json,
        kind: ArgumentKind,
        places: frozenset[Place],
    ) -> None:
        why = f" {part.table.reason}" if part.table.reason else ""
        schema = part.schemas.get(kind)
        if schema is None:
            return
        # Every reading of a path must be allowed, so that an allowed one cannot hide another.
        for instance in chain.from_iterable(
            as_read(given, self._readings.strict) for given in part.with_known_names(arguments)
        ):
            if schema.is_valid(instance):
                continue
            for error in schema.iter_errors(instance):
                is_unpacked = tuple(error.instance_path) in places
                if is_unpacked and error.schema_path[-1] in _OF_TEXTS:
                    continue  # about the text, which was allowed
                path = ".".join(str(step) for step in error.instance_path) or "arguments"
                raise GuardError(
                    f"A guard does not allow these arguments of {key}: {path[:100]}: "
                    f"{str(error.message).rstrip('.')[:300]}.{why}",
                    hint="Call it with other arguments, or ask the administrator of the gateway.",
                )

    def _check_denied(self, part: _Compiled, key: str, arguments: Json) -> None:
        why = f" {part.table.reason}" if part.table.reason else ""
        for name, patterns in part.deny.items():
            for text in _texts_of(arguments, name):
                readings: dict[bool, list[str]] = {}
                for written, pattern in patterns:
                    # An expression for any part of a path must not match the server's working
                    # folder, which contains all relative paths.
                    is_part = _WHOLE_PATH.match(written) is None
                    if is_part not in readings:
                        readings[is_part] = self._readings.all(text, keep_relative=is_part)
                    # And no reading may be denied.
                    if any(pattern.is_valid(reading) for reading in (text, *readings[is_part])):
                        where = "an argument" if name == "*" else f"the argument {name!r}"
                        raise GuardError(
                            f"A guard does not allow {where} of {key} to fit {written!r}.{why}",
                            hint="Call it with other arguments, or ask the administrator of"
                            " the gateway.",
                        )

    def _check_sql(self, part: _Compiled, key: str, arguments: Json) -> None:
        why = f" {part.table.reason}" if part.table.reason else ""
        for name, dialect in part.table.sql.items():
            for text in _texts_of(arguments, name):
                # Refused, not truncated: the end of a statement decides what it does.
                if len(text) > _LONGEST_SQL:
                    raise GuardError(
                        f"The SQL in the argument {name!r} of {key} has {len(text):,} characters, "
                        f"and {_LONGEST_SQL:,} are checked at most.",
                        hint="Send less at a time.",
                    )
                columns = part.table.columns or None
                verdict = check_statement(text, dialect, columns=columns)
                if not verdict.allowed:
                    raise GuardError(
                        f"The SQL in the argument {name!r} of {key} was refused: "
                        f"{verdict.reason}{why}",
                        allowed="Allowed: one statement that only reads.",
                        hint=f"Correct it (rule: {verdict.rule}).",
                    )

    def _without_secrets(self, where: str, key: str, value: Json) -> tuple[Json, Json]:
        mode = self._masks[where]
        if not mode:
            return value, {}
        counts: Counter[str] = Counter()
        masked = secret_scanner().mask_json(value, counts)
        if not counts:
            return value, {}
        kinds = ", ".join(sorted(counts))
        # Only the kinds: the text of the error goes to the model and into the audit.
        if mode == "block":
            subject = "arguments hold" if where == "argument" else "result holds"
            raise GuardError(
                f"The {subject} what looks like a secret ({kinds}); it was not forwarded.",
                hint=f"Call {key} without it, or ask the administrator of the gateway."
                if where == "argument"
                else "Ask for something else, or ask the administrator of the gateway.",
            )
        return cast("Json", masked), {f"{where}_secrets": dict(counts)}


def _texts_of(arguments: Json, name: str) -> Iterator[str]:
    """Yield the texts of an argument; `*`: of all."""
    return texts_in(arguments if name == "*" else list(values_at(arguments, name)))


_MODES: Mapping[str, Callable[[GuardTable], str]] = {
    "argument": lambda table: table.secrets_in_arguments,
    "result": lambda table: table.secrets_in_results,
}
_SIZES: Mapping[str, Callable[[GuardTable], int]] = {
    "argument": lambda table: table.max_argument_bytes,
    "result": lambda table: table.max_result_bytes,
}


class CallGuards:
    """The guards of the configuration."""

    def __init__(
        self,
        tables: Sequence[GuardTable],
        *,
        is_trusted: Callable[[str], bool] = lambda _: True,
        folder_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Compile the guards.

        Args:
            tables: The guards as configured.
            is_trusted: Whether the annotations of a server's tools are trusted.
            folder_of: The working folder of a server on this machine; None: it runs elsewhere.

        Raises:
            SettingError: A schema or an expression is invalid.
        """
        self._is_trusted = is_trusted
        self.folder_of = folder_of
        """The working folder of a server on this machine; None: it runs elsewhere."""
        self._tables: tuple[GuardTable, ...] = ()
        self._parts: tuple[_Compiled, ...] = ()
        self._by_tool: dict[tuple[str, str, str, bool, str | None], CallGuard | None] = {}
        self.reload(tables)

    def reload(self, tables: Sequence[GuardTable]) -> None:
        """Replace the guards, from the next call on.

        Raises:
            SettingError: A schema or an expression is invalid; nothing has changed.
        """
        # Compiled expressions are reused if a reload changed something else.
        if self._tables == (new_tables := tuple(tables)):
            return
        self._parts = tuple(_compiled(table) for table in new_tables)
        self._tables, self._by_tool = new_tables, {}

    @staticmethod
    def check(tables: Sequence[GuardTable]) -> None:
        """Refuse guards that could not be loaded.

        Raises:
            SettingError: A schema or an expression is invalid.
        """
        for table in tables:
            _compiled(table)

    def for_tool(self, project_id: str, tool: GuardedTool) -> CallGuard | None:
        """Return the guard for calls of a tool; None if there is none."""
        if not self._parts:
            return None
        is_trusted = self._is_trusted(tool.server)
        folder = self.folder_of(tool.server)
        mark = (project_id, tool.key, tool.digest, is_trusted, folder)
        try:
            return self._by_tool[mark]
        except KeyError:
            parts = [
                part for part in self._parts if part.fits(project_id, tool, is_trusted=is_trusted)
            ]
            # Digests change with every version of a tool, so old entries are never used again.
            if len(self._by_tool) >= _KEPT:
                self._by_tool.clear()
            guard = self._by_tool[mark] = CallGuard(parts, folder=folder) if parts else None
            return guard

    def for_server(self, project_id: str, server: str) -> CallGuard | None:
        """Return the guard for resources and prompts: all guards that cover the whole server."""
        if not self._parts:
            return None
        parts = [part for part in self._parts if part.fits_server(project_id, server)]
        return CallGuard(parts, folder=self.folder_of(server)) if parts else None


def _compiled(table: GuardTable) -> _Compiled:
    where = table.source or "[[guard]]"
    schemas: dict[ArgumentKind, Any] = {}
    if table.arguments:
        schema = {"type": "object", **table.arguments}
        try:
            schemas["call"] = _validator(schema)
            # Arguments that have not been typed yet are missing.
            schemas["completion"] = _validator({**schema, "required": []})
        except (ValueError, jsonschema_rs.ValidationError) as error:
            raise SettingError(
                f"{where}: arguments of a guard is not a JSON Schema: {_first_line(error)}.",
                hint="Correct it there.",
            ) from error
    if table.sql:
        check_statement("SELECT 1", "sqlite")  # raises now if the parser is missing
    deny: dict[str, list[tuple[str, Any]]] = {}
    for name, patterns in table.deny.items():
        for pattern in patterns:
            try:
                compiled = _validator({"type": "string", "pattern": pattern})
            except (ValueError, jsonschema_rs.ValidationError) as error:
                raise SettingError(
                    f"{where}: {pattern[:80]!r} in deny of a guard is not a regular expression.",
                    allowed="Allowed: regular expressions that do not look ahead or back, and do"
                    " not refer to what they have found.",
                    hint="Correct it there.",
                ) from error
            deny.setdefault(name, []).append((pattern, compiled))
    written = chain.from_iterable(table.deny.values())
    expressions = tuple(dict.fromkeys((*written, *texts_in(dict(table.arguments)))))
    return _Compiled(table, schemas, deny, expressions)


def _validator(schema: Json) -> Any:
    return jsonschema_rs.validator_for(
        schema,
        mask="the value",  # the value may be a secret
        offline=True,
        pattern_options=jsonschema_rs.RegexOptions(),  # linear in the text
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")[:200] if str(error).strip() else "unknown"


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> re.Pattern[str]:
    parts = (".".join(map(re.escape, part.split("?"))) for part in re.split(r"\*+", pattern))
    first, *rest = parts
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last, re.DOTALL)


def _covers(pattern: str, key: str, server: str) -> bool:
    if pattern == "*":
        return True
    return _expression(pattern).fullmatch(key if ":" in pattern else server) is not None
