"""Reading intents from the files of a pack: `pack.toml` and `intents/*.toml`."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast, get_args

from toolgate.errors import PackError
from toolgate.intent._keyword import KeywordStage
from toolgate.intent._phrases import phrase
from toolgate.intent._text import lowered
from toolgate.intent.base import (
    NONE,
    ArgumentKind,
    ArgumentSpec,
    Guard,
    Intent,
    Keywords,
)

__all__ = ["load_intent", "load_intents", "shipped", "with_names"]

MOST_BYTES: Final = 1_000_000
"""No file of an intent is larger; what is, is not one."""

_T = TypeVar("_T")

_INTENT_KEYS: Final = frozenset(
    [
        *("name", "tool", "tools", "order", "description", "guarded", "keywords", "arguments"),
        *("false_alarms", "threshold"),  # the semantic stage reads these
    ]
)
_WORD_KEYS: Final = frozenset(
    {"exact", "partial", "context", "patterns", "weak_patterns", "misspelt", "correct"}
)
_ARGUMENT_KEYS: Final = frozenset(
    [
        *("name", "kind", "part", "inclusive", "past", "values", "patterns", "stop", "case"),
        *("words", "default", "minimum", "maximum"),
    ]
)
_GUARD_KEYS: Final = frozenset({"home", "before", "between", "verbs", "pronouns", "own"})
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})?")


def shipped(name: str) -> Path:
    """The folder of a pack that is part of Toolgate."""
    return Path(__file__).parents[1] / "packs" / name


def load_intents(folder: Path) -> tuple[Intent, ...]:
    """All intents of a pack that have a `.toml`, in their order.

    Raises:
        PackError: A file cannot be used; the message names it, the line and the reason.
    """
    common = folder / "pack.toml"
    pack = _File(common).table() if common.is_file() else _Table({}, _File(common, text=""))
    lists = {name: tuple(_values(pack.sub("lists"), name)) for name in pack.sub("lists").content}
    guards = {
        language: _guard(pack.sub("subject").sub(language))
        for language in _languages(pack.sub("subject"))
    }
    name = pack.take("name", str, folder.name)
    found: dict[str, tuple[Intent, Path]] = {}
    for path in sorted(folder.glob("intents/*.toml")):
        intent = load_intent(path, pack=name, lists=lists, guards=guards)
        key = intent.name.casefold()
        if key in found:
            raise PackError(
                f"{path}: there is an intent {intent.name!r} already, in {found[key][1].name}.",
                hint="Give one of them another name.",
            )
        found[key] = (intent, path)
    return KeywordStage(intent for intent, _ in found.values()).intents


def load_intent(
    path: Path,
    *,
    pack: str = "",
    lists: Mapping[str, tuple[str, ...]] | None = None,
    guards: Mapping[str, Guard] | None = None,
) -> Intent:
    """An intent from its file; the file's name is the intent's unless it says another.

    Args:
        path: A `.toml` file.
        pack: Name of its pack.
        lists: Lists that its phrases may refer to.
        guards: Per language, how messages about something else are told, for intents that are
            `guarded`.

    Raises:
        PackError: The file cannot be used; the message names it, the line and the reason.
    """
    table = _File(path).table()
    table.only(_INTENT_KEYS)
    name = table.take("name", str, path.stem).strip()
    if not name or name.casefold() == NONE:
        table.fail("name", f"an intent cannot be called {name!r}", "Give it another name.")
    tool = table.take("tool", str, "")
    tools = tuple(table.strings("tools"))
    names = dict(lists or {})
    keywords = {
        language: _keywords(table.sub("keywords").sub(language), names)
        for language in _languages(table.sub("keywords"))
    }
    arguments = tuple(_argument(each, names) for each in table.tables("arguments"))
    seen: set[str] = set()
    for each in arguments:
        if each.name in seen:
            table.fail("arguments", f"argument {each.name!r} is declared twice", "Remove one.")
        seen.add(each.name)
    return Intent(
        name=name,
        tool=tool,
        tools=tools if tool in tools or not tool else (tool, *tools),
        description=table.take("description", str, ""),
        order=table.take("order", int, 100),
        keywords=keywords,
        guards=dict(guards or {}) if table.take("guarded", bool, False) else {},
        names=names,
        arguments=arguments,
        pack=pack,
    )


def with_names(intent: Intent, name: str, more: tuple[str, ...]) -> Intent:
    """The intent with more entries in one of its lists: the tables of a connected database."""
    known = intent.names.get(name, ())
    folded = {lowered(each) for each in known}
    added = tuple(each for each in dict.fromkeys(more) if lowered(each) not in folded)
    arguments = tuple(
        replace(spec, values={**spec.values, **dict.fromkeys(added, ())})
        if spec.values and set(spec.values) == set(known)
        else spec
        for spec in intent.arguments
    )
    return replace(intent, names={**intent.names, name: (*known, *added)}, arguments=arguments)


def _keywords(table: "_Table", lists: Mapping[str, tuple[str, ...]]) -> Keywords:
    table.only(_WORD_KEYS)
    made = Keywords(**{key: tuple(table.strings(key)) for key in _WORD_KEYS})
    if made.partial and not made.context:
        table.fail(
            "partial",
            "partial keywords need a context beside them",
            'Add context = ["..."], or make them exact.',
        )
    for key in ("patterns", "weak_patterns"):
        table.check_phrases(key, lists)
    return made


def _guard(table: "_Table") -> Guard:
    table.only(_GUARD_KEYS)
    return Guard(**{key: frozenset(table.strings(key)) for key in _GUARD_KEYS})


def _argument(table: "_Table", lists: Mapping[str, tuple[str, ...]]) -> ArgumentSpec:
    table.only(_ARGUMENT_KEYS)
    name = table.take("name", str, "")
    if not name:
        table.fail("arguments", "an argument has no name", 'Add name = "...".')
    kinds = get_args(ArgumentKind)
    kind = table.choice("kind", kinds)
    values: dict[str, tuple[str, ...]] = {}
    wanted = table.content.get("values", [])
    if isinstance(wanted, str):
        if wanted not in lists:
            known = ", ".join(sorted(lists)) or "none"
            table.fail("values", f"there is no list {wanted!r}", f"Lists of pack.toml: {known}.")
        values = dict.fromkeys(lists[wanted], ())
    elif isinstance(wanted, dict):
        words = _Table(cast("dict[str, Any]", wanted), table.file)
        values = {each: tuple(words.strings(each)) for each in words.content}
    else:
        values = dict.fromkeys(table.strings("values"), ())
    if kind == "choice" and not values:
        table.fail("kind", f"{name!r} is a choice without values", 'Add values = ["..."].')
    if kind == "name":
        table.check_phrases("patterns", lists)
    return ArgumentSpec(
        name=name,
        kind=kind,
        part=table.choice("part", ("since", "until", "day"), "since"),
        inclusive=table.take("inclusive", bool, False),
        past=table.take("past", bool, False),
        values=values,
        patterns=tuple(table.strings("patterns")),
        stop=frozenset(lowered(each) for each in table.strings("stop")),
        case=table.choice("case", ("", "lower", "upper", "title"), ""),
        words=tuple(table.strings("words")),
        default=table.content.get("default"),
        minimum=table.number("minimum"),
        maximum=table.number("maximum"),
    )


def _languages(table: "_Table") -> list[str]:
    for language in table.content:
        if not _LANGUAGE.fullmatch(language):
            table.fail(language, f"{language!r} is no language", "Write its code, as en or de.")
    return list(table.content)


def _values(table: "_Table", name: str) -> list[str]:
    return table.strings(name)


class _File:
    """A file of a pack, and where its keys stand."""

    def __init__(self, path: Path, *, text: str | None = None) -> None:
        self.path = path
        self.text = text if text is not None else self._read()

    def _read(self) -> str:
        try:
            with self.path.open("rb") as opened:
                content = opened.read(MOST_BYTES + 1)
        except OSError as error:
            raise PackError(
                f"{self.path} cannot be read: {error.strerror or error}.",
                hint="Check that it exists and may be read.",
            ) from error
        if len(content) > MOST_BYTES:
            raise PackError(
                f"{self.path} is larger than {MOST_BYTES:,} bytes.",
                hint="Example prompts belong into a .txt file beside it.",
            )
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise PackError(
                f"{self.path}:{line}: this is no UTF-8 text.", hint="Save the file as UTF-8."
            ) from error

    def table(self) -> "_Table":
        """The file as a table."""
        try:
            return _Table(tomllib.loads(self.text), self)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            match = re.search(r"at line (\d+)", str(error))
            line = f":{match[1]}" if match else ""
            reason = re.sub(r" \(at .*\)$", "", str(error)) or "it is nested too deeply"
            raise PackError(
                f"{self.path}{line}: this is no valid TOML: {reason}.",
                hint="Correct the line.",
            ) from error

    def line(self, key: str) -> str:
        """`:LINE` of a key, if it can be told."""
        match = re.search(
            rf"^\s*(?:{re.escape(key)}\s*=|\[.*\b{re.escape(key)}\b)", self.text, re.MULTILINE
        )
        return f":{self.text.count(chr(10), 0, match.end()) + 1}" if match else ""


class _Table:
    """A table of a file; what is wrong in it is said with file and line."""

    def __init__(self, content: dict[str, Any], file: _File) -> None:
        self.content = content
        self.file = file

    def fail(self, key: str, reason: str, hint: str) -> NoReturn:
        """Say what is wrong with a key.

        Raises:
            PackError: Always.
        """
        raise PackError(f"{self.file.path}{self.file.line(key)}: {reason}.", hint=hint)

    def only(self, keys: frozenset[str]) -> None:
        """Refuse keys that mean nothing."""
        for key in self.content:
            if key not in keys:
                allowed = ", ".join(sorted(keys))
                self.fail(key, f"there is no key {key!r} here", f"Allowed: {allowed}.")

    def take(self, key: str, kind: Callable[..., _T], default: _T) -> _T:
        """A value of a plain type."""
        value = self.content.get(key, default)
        if type(value) is not kind:
            wanted = {str: "a text", int: "a whole number", bool: "true or false"}
            said = wanted.get(cast("Any", kind), "something else")
            self.fail(key, f"{key!r} is {value!r}", f"It has to be {said}.")
        return cast("_T", value)

    def number(self, key: str) -> float | None:
        """A number, or None where there is none."""
        value = self.content.get(key)
        if value is not None and type(value) not in {int, float}:
            self.fail(key, f"{key!r} is {value!r}", "It has to be a number.")
        return value

    def choice(self, key: str, allowed: tuple[Any, ...], default: str | None = None) -> Any:
        """One of some words."""
        value = self.content.get(key, default)
        if value not in allowed:
            said = ", ".join(repr(each) for each in allowed)
            self.fail(key, f"{key!r} is {value!r}", f"Allowed: {said}.")
        return value

    def strings(self, key: str) -> list[str]:
        """A list of texts, none of them empty."""
        value = self.content.get(key, [])
        plain = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(each, str) and each.strip() for each in plain):
            self.fail(key, f"{key!r} is no list of texts", f'Write it as: {key} = ["...", "..."]')
        return cast("list[str]", plain)

    def sub(self, key: str) -> "_Table":
        """A table inside; empty where there is none."""
        value = self.content.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, f"{key!r} is no table", f"Write it as a part of the file: [{key}]")
        return _Table(cast("dict[str, Any]", value), self.file)

    def tables(self, key: str) -> "list[_Table]":
        """A list of tables."""
        value = self.content.get(key, [])
        plain = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(each, dict) for each in plain):
            self.fail(key, f"{key!r} is no list of tables", f"Write each as: [[{key}]]")
        return [_Table(cast("dict[str, Any]", each), self.file) for each in plain]

    def check_phrases(self, key: str, lists: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse phrases that do not hold."""
        for source in self.strings(key):
            try:
                phrase(source, lists)
            except ValueError as error:
                self.fail(key, f"phrase {source!r} does not hold: {error}", "Correct the phrase.")
