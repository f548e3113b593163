"""Every setting with its value, its source, and its description in the code."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from toolgate.settings.config_file import parse_document, read_text
from toolgate.settings.edit import render_value
from toolgate.settings.tables.root import Settings
from toolgate.types import Json, json_object

SettingKind = Literal["switch", "choice", "number", "text", "list", "table"]
"""How people enter a value."""

SettingSource = Literal["file", "command line", "code", "default"]
"""Where a value comes from; `code`: the program that built the gateway in Python."""


_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
"""A Markdown link, of which only the text is shown."""


@dataclass(frozen=True, kw_only=True)
class DescribedSetting:
    """A setting with its value, source and description."""

    key: tuple[str, ...]
    """Names of its tables, followed by its own."""

    value: object
    """The current value; None if it is secret or not set."""

    default: object
    """The default."""

    source: SettingSource
    """Where it is set."""

    description: str
    """Purpose, unit and range."""

    kind: SettingKind
    """How people enter it."""

    choices: tuple[str, ...] = ()
    """The possible values if `kind` is `choice`."""

    is_secret: bool = False
    """Whether its value is never shown."""

    @property
    def name(self) -> str:
        """The dotted key, such as `discovery.budget_tokens`."""
        return ".".join(self.key)

    @property
    def shown(self) -> str:
        """The value as TOML; empty if it is not set or is secret."""
        return "" if self.is_secret or self.value is None else render_value(self.value)

    @property
    def shown_default(self) -> str:
        """The default as TOML; empty if there is none."""
        return "" if self.default is None else render_value(self.default)


def described_settings(settings: Settings) -> list[DescribedSetting]:
    """Return all settings that have a single value, in the order of the tables.

    Servers, projects, rules, models and connections, of which there can be many, are left out.
    """
    path = settings.config_file
    written: Json = {}
    if path is not None and path.is_file():
        written = parse_document(read_text(path), path, is_toml=True).root
    return list(_described(settings, (), written, json_object(dict(settings.overrides))))


def _described(
    table: object, prefix: tuple[str, ...], written: Json, overrides: Json
) -> Iterator[DescribedSetting]:
    table_class = type(table)
    kinds, texts = _kinds(table_class), _descriptions(table_class)
    nested: list[Field[Any]] = []
    for item in fields(cast("Any", table)):
        if item.metadata.get("derived"):
            continue
        value = getattr(table, item.name)
        if is_dataclass(value):
            nested.append(item)
            continue
        kind, choices = kinds[item.name]
        if not kind:
            continue
        is_secret = not item.repr
        shown, default = _plain(value), _plain(_default(item))
        source: SettingSource = "default"
        if item.name in overrides:
            source = "command line"
        elif item.name in written:
            source = "file"
        elif shown != default:
            source = "code"
        yield DescribedSetting(
            key=(*prefix, item.name),
            value=shown,
            default=default,
            source=source,
            description=_LINK.sub(r"\1", " ".join(texts.get(item.name, "").split())),
            kind=kind,
            choices=choices,
            is_secret=is_secret,
        )
    for item in nested:
        yield from _described(
            getattr(table, item.name),
            (*prefix, item.name),
            json_object(written.get(item.name)),
            json_object(overrides.get(item.name)),
        )


@cache
def _kinds(table: type) -> Mapping[str, tuple[SettingKind | Literal[""], tuple[str, ...]]]:
    """Return the kinds and choices of the settings in a table, by field name."""
    return {name: _kind(hint) for name, hint in get_type_hints(table).items()}


def _kind(hint: Any) -> tuple[SettingKind | Literal[""], tuple[str, ...]]:
    """Return the kind and choices of a type; empty for tables of tables, which have own pages."""
    if isinstance(hint, UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "choice", tuple(map(str, parts))
    if origin is tuple:
        return ("list", ()) if parts[0] is str else ("", ())
    if origin is not None and issubclass(origin, Mapping):
        return ("", ()) if is_dataclass(parts[1]) else ("table", ())
    kinds: dict[Any, SettingKind] = {bool: "switch", int: "number", float: "number"}
    if hint in kinds:
        return kinds[hint], ()
    return ("text", ()) if hint in {str, Path} else ("", ())


def _default(item: Field[Any]) -> object:
    if item.default is not MISSING:
        return item.default
    return item.default_factory() if item.default_factory is not MISSING else None


def _plain(value: Any) -> object:
    """Convert a value to types that TOML has."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | frozenset):
        return [_plain(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


@cache
def _descriptions(table: type) -> Mapping[str, str]:
    """Read the docstrings below the fields of a table, which only the source code has."""
    tree = ast.parse(inspect.getsource(table))
    [definition] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    texts: dict[str, str] = {}
    name = ""
    for node in definition.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)):
                pass
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                texts[name] = text
            case _:
                name = ""
    return texts
