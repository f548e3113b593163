"""Converts a table of a document into its dataclass, or raises an error with the line."""

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from toolgate.base.names import current_key
from toolgate.errors import SettingError
from toolgate.settings.config_file import ConfigDocument, KeyPath
from toolgate.settings.variables import Missing, Scope, replace
from toolgate.types import Json

TableT = TypeVar("TableT")


def read_table(
    cls: type[TableT],
    table: object,
    document: ConfigDocument,
    path: KeyPath = (),
    *,
    scope: Scope | None = None,
    apart: frozenset[str] = frozenset(),
) -> TableT:
    """Create the dataclass `cls` from the values of a table.

    Args:
        cls: Describes the keys; types, allowed values and ranges come from its fields.
        table: The value in the document.
        document: Named in errors, with the line.
        path: Path of the table.
        scope: Replaces variables in strings; None does not replace them.
        apart: Keys that are allowed but read elsewhere.

    Raises:
        SettingError: A key is unknown, or a value has the wrong type or is out of range.
    """
    if not isinstance(table, dict):
        raise _wrong_type(document, path, "a table", table)
    items_by_name = {
        item.name: item for item in fields(cast("Any", cls)) if "derived" not in item.metadata
    }
    values: Json = {}
    for name, value in cast("Json", table).items():
        if name in apart:
            continue
        if name not in items_by_name:
            raise unknown_key(document, (*path, name), sorted({*items_by_name, *apart}))
        item = items_by_name[name]
        values[name] = _value(item.type, value, document, (*path, name), scope)
        _check_range(item, values[name], document, (*path, name))
    return cls(**values)


def dotted(path: KeyPath) -> str:
    """Return the dotted form of a path: `server.github.args`."""
    return ".".join(str(part) for part in path)


def unknown_key(document: ConfigDocument, path: KeyPath, allowed: list[str]) -> SettingError:
    """Create the error for an unknown key, with the most similar known one."""
    name = str(path[-1])
    near = get_close_matches(name, allowed, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]!r}?" if near else "Correct or remove it."
    if renamed := current_key(name, allowed):
        hint = f"It is called {renamed!r} now."
    inside = f" in [{dotted(path[:-1])}]" if len(path) > 1 else ""
    return document.error(
        path,
        f"the key {name!r}{inside} does not exist.",
        allowed=f"Allowed: {', '.join(allowed)}.",
        hint=hint,
    )


def _value(
    kind: object, value: object, document: ConfigDocument, path: KeyPath, scope: Scope | None
) -> object:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise _wrong_type(document, path, "true or false", value)
    if kind is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise _wrong_type(document, path, "a whole number", value)
    if kind is float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _as_float(value, document, path)
        raise _wrong_type(document, path, "a number", value)
    if kind is str:
        return _text(value, document, path, scope)
    if origin is Literal:
        text = _text(value, document, path, scope)
        if text in arguments:
            return text
        raise document.error(
            path,
            f"{dotted(path)} is {_shortened(text)}.",
            allowed=f"Allowed: {', '.join(str(item) for item in arguments)}.",
            hint="Set it to one of these.",
        )
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong_type(document, path, "a list", value)
        items = enumerate(cast("list[object]", value))
        return tuple(_value(arguments[0], item, document, (*path, at), scope) for at, item in items)
    if origin in {Mapping, dict} or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, dict):
            raise _wrong_type(document, path, "a table", value)
        pairs = cast("Json", value).items()
        return {
            name: _value(arguments[1], item, document, (*path, name), scope) for name, item in pairs
        }
    if isinstance(kind, type) and is_dataclass(kind):
        return read_table(kind, value, document, path, scope=scope)
    if isinstance(kind, UnionType):
        return _union(arguments, value, document, path, scope)
    return _filled(value, document, path, scope)


def _filled(value: object, document: ConfigDocument, path: KeyPath, scope: Scope | None) -> object:
    """Replace the variables in the strings of any value."""
    if isinstance(value, str):
        return _text(value, document, path, scope)
    if isinstance(value, list):
        items = enumerate(cast("list[object]", value))
        return [_filled(item, document, (*path, at), scope) for at, item in items]
    if isinstance(value, dict):
        pairs = cast("Json", value).items()
        return {name: _filled(item, document, (*path, name), scope) for name, item in pairs}
    return value


def _union(
    kinds: tuple[object, ...],
    value: object,
    document: ConfigDocument,
    path: KeyPath,
    scope: Scope | None,
) -> object:
    """Return the value as the first type that fits, for types such as `str | int`."""
    if value is None and NoneType in kinds:
        return None
    *first_kinds, last = [kind for kind in kinds if kind is not NoneType]
    for kind in first_kinds:
        try:
            return _value(kind, value, document, path, scope)
        except SettingError:
            continue
    return _value(last, value, document, path, scope)


def _text(value: object, document: ConfigDocument, path: KeyPath, scope: Scope | None) -> str:
    if not isinstance(value, str):
        raise _wrong_type(document, path, "a text in quotes", value)
    if scope is None:
        return value
    try:
        return replace(value, scope)
    except Missing as missing:
        raise document.error(
            path,
            f"{dotted(path)} names the variable {missing.name}, which is not set.",
            hint=f"Set {missing.name} in the environment, or write ${{{missing.name}:-DEFAULT}}.",
        ) from missing


def _as_float(value: float, document: ConfigDocument, path: KeyPath) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _out_of_range(document, path, "far too large", "") from None


def _check_range(
    item: "Field[Any]", value: object, document: ConfigDocument, path: KeyPath
) -> None:
    if "low" not in item.metadata or value is None:
        return
    low, high = item.metadata["low"], item.metadata["high"]
    if not low <= cast("float", value) <= high:
        text = "far too large" if abs(cast("float", value)) >= 1e18 else str(value)
        raise _out_of_range(document, path, text, f"Allowed: {low:,} to {high:,}.")


def _out_of_range(document: ConfigDocument, path: KeyPath, text: str, allowed: str) -> SettingError:
    return document.error(
        path, f"{dotted(path)} is {text}.", allowed=allowed, hint="Set it to a value in between."
    )


def _wrong_type(
    document: ConfigDocument, path: KeyPath, expected: str, value: object
) -> SettingError:
    # The value itself is not shown: it may be a misplaced secret.
    where = f"{dotted(path)} is" if path else "the document is"
    return document.error(
        path, f"{where} {_kind(value)}.", allowed=f"Expected: {expected}.", hint="Correct it there."
    )


def _kind(value: object) -> str:
    names: tuple[tuple[type, str], ...] = (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number"),
        (str, "a text"),
        (list, "a list"),
        (dict, "a table"),
        (type(None), "null"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "a date or time")


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
