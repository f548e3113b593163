"""Read intents from the files of a pack: `pack.toml`, `intents/*.toml` and `intents/*.txt`.

`intents/NAME.txt` has one prompt per line, `intents/NAME.de.txt` those of another language;
blank lines and lines that start with `#` are ignored. If there is a file `embeddings.list`,
prompts are read only from the files that it names. `intents/NAME.toml` configures the same
intent. `unsupported.txt` next to `intents/` has messages that people send and that the pack does
not answer.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast, get_args

from toolgate.base.pack_files import (
    PackFile,
    PackTable,
    Trying,
    files_in,
    files_named,
    intents_home,
    pack_table,
)
from toolgate.errors import PackError
from toolgate.intents.base import (
    NONE,
    ArgumentKind,
    ArgumentSpec,
    DetectionLimits,
    Intent,
    Keywords,
    SubjectGuard,
)
from toolgate.intents.phrases import compile_phrase
from toolgate.intents.text import lowered

_UNSUPPORTED: Final = "unsupported.txt"
_INTENT_KEYS: Final = frozenset(
    [
        *("name", "tool", "tools", "order", "description", "guarded", "keywords", "arguments"),
        *("false_alarms", "threshold", "dev"),
    ]
)
_WORD_KEYS: Final = frozenset(
    {"exact", "partial", "context", "patterns", "weak_patterns", "misspelt", "correct"}
)
_ARGUMENT_KEYS: Final = frozenset(
    [
        *("name", "kind", "part", "inclusive", "past", "values", "patterns", "stop", "case"),
        *("words", "default", "minimum", "maximum", "tools", "writes"),
    ]
)
_PARTS: Final = ("since", "until", "day", "from", "to", "from-column", "to-column")
_GUARD_KEYS: Final = frozenset({"home", "before", "between", "verbs", "pronouns", "own"})
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})?")
_IN_LANGUAGE: Final = re.compile(rf"(.+)\.({_LANGUAGE.pattern})")


@dataclass(frozen=True, kw_only=True)
class IntentFiles:
    """The intents in the files of a pack."""

    intents: tuple[Intent, ...]
    """All intents in order, with their prompts."""

    unsupported: tuple[str, ...] = ()
    """Known messages that are not answered."""

    limits: DetectionLimits = field(default_factory=DetectionLimits)
    """Limits for all intents of the pack."""

    own_limits: Mapping[str, DetectionLimits] = field(default_factory=dict[str, DetectionLimits])
    """Limits for individual intents, by name."""

    files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """The first file of each intent, by name."""


def builtin_pack_folder(name: str) -> Path:
    """Return the folder of a built-in pack."""
    return Path(__file__).parents[2] / "packs" / "builtin" / name


def load_intents(folder: Path) -> tuple[Intent, ...]:
    """Return all intents of a pack in order, with their prompts.

    Raises:
        PackError: A file cannot be used; the message names it, the line and the reason.
    """
    return read_intents(folder).intents


def read_intents(
    folder: Path,
    *,
    report: Callable[[PackError], None] | None = None,
    table: PackTable | None = None,
) -> IntentFiles:
    """Read the intents in the files of a pack.

    Args:
        folder: The pack's folder; a folder with only `.txt` files is a pack too.
        report: Called with the error of each unusable file, which is then skipped.
        table: The content of `pack.toml`, if already read.

    Raises:
        PackError: The folder or `pack.toml` cannot be used or, without `report`, any other file;
            the message names it, the line and the reason.
    """
    if not folder.is_dir():
        raise PackError(
            f"{folder} is not a folder.", hint="Give the folder that holds pack.toml or intents/."
        )
    reader = _IntentFileReader(
        folder, pack_table(folder) if table is None else table, Trying(report)
    )
    # Prompts first: each table gets the prompts of its intent, and the rest become intents without
    # a table.
    reader.read_prompts()
    reader.read_tables()
    reader.read_rest()
    return IntentFiles(
        intents=tuple(
            sorted(
                (intent for intent, _ in reader.intents.values()),
                key=lambda intent: (intent.order, intent.name),
            )
        ),
        unsupported=reader.unsupported(),
        limits=reader.limits,
        own_limits=reader.own_limits,
        files={intent.name: path for intent, path in reader.intents.values()},
    )


def load_intent(
    path: Path,
    *,
    pack: str = "",
    lists: Mapping[str, tuple[str, ...]] | None = None,
    guards: Mapping[str, SubjectGuard] | None = None,
) -> Intent:
    """Read an intent from its file, which also names it unless the content sets another name.

    Args:
        path: A `.toml` file.
        pack: Name of its pack.
        lists: Lists that its phrases may refer to.
        guards: By language, how messages about something else are recognized, for intents that
            are `guarded`.

    Raises:
        PackError: The file cannot be used; the message names it, the line and the reason.
    """
    return _intent(PackFile(path).table(), pack=pack, lists=lists or {}, guards=guards or {})


@dataclass(frozen=True, kw_only=True)
class _IntentPrompts:
    """The prompts of one intent."""

    name: str
    first: Path
    by_language: dict[str, tuple[str, ...]]


class _IntentFileReader:
    """Combines the intents of a folder."""

    def __init__(self, folder: Path, table: PackTable, trying: Trying) -> None:
        lists, subject = table.sub("lists"), table.sub("subject")
        self.intents: dict[str, tuple[Intent, Path]] = {}
        self.limits = _limits(table, DetectionLimits())
        self.own_limits: dict[str, DetectionLimits] = {}
        self._folder = folder
        self._home = intents_home(folder)
        self._trying = trying
        self._pack = table.take("name", str, folder.name)
        self._lists = {name: tuple(lists.strings(name)) for name in lists.content}
        self._guards = {language: _guard(subject.sub(language)) for language in _languages(subject)}
        self._prompts: dict[str, _IntentPrompts] = {}

    def read_prompts(self) -> None:
        """Read the prompts of each intent and language."""
        with self._trying:
            for path in self._prompt_files():
                with self._trying:
                    self._add_prompts(path)

    def read_tables(self) -> None:
        """Read the intents that have a `.toml`, with their prompts."""
        with self._trying:
            for path in files_in(self._home, ".toml"):
                if path.name == "pack.toml":
                    continue
                prompts = self._prompts.pop(path.stem.casefold(), None)
                with self._trying:
                    self._add_table(path, prompts.by_language if prompts else {})

    def read_rest(self) -> None:
        """Read the intents that have only prompts."""
        for prompts in self._prompts.values():
            with self._trying:
                if prompts.name.casefold() == NONE:
                    PackFile(prompts.first).fail(
                        None,
                        f"an intent cannot be called {prompts.name!r}",
                        "Give the file another name.",
                    )
                self._add(
                    Intent(
                        name=prompts.name,
                        prompts=prompts.by_language,
                        names=self._lists,
                        pack=self._pack,
                    ),
                    prompts.first,
                )

    def unsupported(self) -> tuple[str, ...]:
        """Return known messages that are not answered."""
        path = self._folder / _UNSUPPORTED
        with self._trying:
            return PackFile(path).lines() if path.is_file() else ()
        return ()

    def _prompt_files(self) -> Iterable[Path]:
        # The list may be next to the pack's intent files or in the folder of the pack.
        for folder in dict.fromkeys((self._home, self._folder)):
            manifest = folder / "embeddings.list"
            if manifest.is_file():
                return files_named(manifest, self._home, ".txt", self._trying)
        return [path for path in files_in(self._home, ".txt") if path.name != _UNSUPPORTED]

    def _add_prompts(self, path: Path) -> None:
        name, language = path.stem, ""
        if match := _IN_LANGUAGE.fullmatch(name):
            name, language = match[1], match[2]
        prompts = self._prompts.get(name.casefold())
        if prompts is not None and prompts.name != name:
            _taken(path, name, prompts.first)
        lines = PackFile(path).lines()
        if not lines:
            PackFile(path).fail(
                None, "there are no prompts in it", "Write one per line, or remove the file."
            )
        if prompts is None:
            prompts = _IntentPrompts(name=name, first=path, by_language={})
            self._prompts[name.casefold()] = prompts
        prompts.by_language[language] = lines

    def _add_table(self, path: Path, prompts: Mapping[str, tuple[str, ...]]) -> None:
        table = PackFile(path).table()
        intent = _intent(table, pack=self._pack, lists=self._lists, guards=self._guards)
        limits = _limits(table, self.limits)
        self._add(replace(intent, prompts=prompts), path)
        if limits != self.limits:
            self.own_limits[intent.name] = limits

    def _add(self, intent: Intent, path: Path) -> None:
        key = intent.name.casefold()
        if key in self.intents:
            _taken(path, intent.name, self.intents[key][1])
        if not intent.prompts and not any(intent.keywords.values()):
            PackFile(path).fail(
                None,
                f"the intent {intent.name!r} has neither prompts nor keywords",
                f"Write prompts into {path.stem}.txt, one per line.",
            )
        self.intents[key] = (intent, path)


def _taken(path: Path, name: str, where: Path) -> None:
    PackFile(path).fail(
        None,
        f"there is an intent {name!r} already, in {where.name}",
        "Give one of them another name.",
    )


def _limits(table: PackTable, common: DetectionLimits) -> DetectionLimits:
    alarms, threshold = table.share("false_alarms"), table.share("threshold")
    return DetectionLimits(
        false_alarms=common.false_alarms if alarms is None else alarms,
        # An intent that sets its own share does not use the pack's threshold.
        threshold=threshold if threshold is not None or alarms is not None else common.threshold,
    )


def _intent(
    table: PackTable,
    *,
    pack: str,
    lists: Mapping[str, tuple[str, ...]],
    guards: Mapping[str, SubjectGuard],
) -> Intent:
    table.only(_INTENT_KEYS)
    name = table.take("name", str, table.file.path.stem).strip()
    if not name or name.casefold() == NONE:
        table.fail("name", f"an intent cannot be called {name!r}", "Give it another name.")
    tool = table.take("tool", str, "")
    tools = tuple(table.strings("tools"))
    names = dict(lists)
    keywords = {
        language: _keywords(table.sub("keywords").sub(language), names)
        for language in _languages(table.sub("keywords"))
    }
    arguments = tuple(_argument(declared, names) for declared in table.tables("arguments"))
    seen: set[str] = set()
    for argument in arguments:
        if argument.name in seen:
            table.fail("arguments", f"argument {argument.name!r} is declared twice", "Remove one.")
        seen.add(argument.name)
    return Intent(
        name=name,
        tool=tool,
        tools=tools if tool in tools or not tool else (tool, *tools),
        description=table.take("description", str, ""),
        order=table.take("order", int, 100),
        keywords=keywords,
        guards=dict(guards) if table.take("guarded", bool, False) else {},
        names=names,
        arguments=arguments,
        dev=table.take("dev", bool, False),
        pack=pack,
    )


def with_list_entries(intent: Intent, name: str, more: Mapping[str, tuple[str, ...]]) -> Intent:
    """Add entries to a list of an intent, such as the tables of a connected database.

    Args:
        intent: The intent from its file.
        name: The list.
        more: Entries, with synonyms for each. A word that the arguments of the intent never take
            as a value is left out.
    """
    entries = intent.names.get(name, ())
    # A new entry must not turn a word that the pack excludes into a value.
    never = frozenset(word for spec in intent.arguments for word in spec.stop)
    seen = {lowered(word) for word in entries}
    added: dict[str, tuple[str, ...]] = {}
    for entry, synonyms in more.items():
        words = [
            word
            for word in dict.fromkeys((entry, *synonyms))
            if (key := lowered(word)) and key not in seen and key not in never
        ]
        seen.update(map(lowered, words))
        if words:
            added[entry] = tuple(words)
    arguments = tuple(
        replace(spec, values={**spec.values, **added}, live=spec.live | added.keys())
        if spec.values and set(spec.values) == set(entries)
        else spec
        for spec in intent.arguments
    )
    new_words = dict.fromkeys(word for words in added.values() for word in words)
    return replace(
        intent, names={**intent.names, name: (*entries, *new_words)}, arguments=arguments
    )


def _keywords(table: PackTable, lists: Mapping[str, tuple[str, ...]]) -> Keywords:
    table.only(_WORD_KEYS)
    keywords = Keywords(**{key: tuple(table.strings(key)) for key in _WORD_KEYS})
    # Rejected here, where the author sees it: without a context they could never match.
    if keywords.partial and not keywords.context:
        table.fail(
            "partial",
            "partial keywords need a context beside them",
            'Add context = ["..."], or make them exact.',
        )
    for key in ("patterns", "weak_patterns"):
        _check_phrases(table, key, lists)
    return keywords


def _guard(table: PackTable) -> SubjectGuard:
    table.only(_GUARD_KEYS)
    return SubjectGuard(**{key: frozenset(table.strings(key)) for key in _GUARD_KEYS})


def _argument(table: PackTable, lists: Mapping[str, tuple[str, ...]]) -> ArgumentSpec:
    table.only(_ARGUMENT_KEYS)
    name = table.take("name", str, "")
    if not name:
        table.fail("arguments", "an argument has no name", 'Add name = "...".')
    kinds = get_args(ArgumentKind)
    kind = table.choice("kind", kinds)
    values: dict[str, tuple[str, ...]] = {}
    declared = table.content.get("values", [])
    if isinstance(declared, str):
        if declared not in lists:
            list_names = ", ".join(sorted(lists)) or "none"
            table.fail(
                "values", f"there is no list {declared!r}", f"Lists of pack.toml: {list_names}."
            )
        values = dict.fromkeys(lists[declared], ())
    elif isinstance(declared, dict):
        words = PackTable(cast("dict[str, Any]", declared), table.file)
        values = {value: tuple(words.strings(value)) for value in words.content}
    else:
        values = dict.fromkeys(table.strings("values"), ())
    if kind == "choice" and not values:
        table.fail("kind", f"{name!r} is a choice without values", 'Add values = ["..."].')
    if kind == "name":
        _check_phrases(table, "patterns", lists)
    return ArgumentSpec(
        name=name,
        kind=kind,
        part=table.choice("part", _PARTS, "since"),
        inclusive=table.take("inclusive", bool, False),
        past=table.take("past", bool, False),
        values=values,
        patterns=tuple(table.strings("patterns")),
        stop=frozenset(lowered(word) for word in table.strings("stop")),
        case=table.choice("case", ("", "lower", "upper", "title"), ""),
        words=tuple(table.strings("words")),
        tools=frozenset(table.strings("tools")),
        writes=table.take("writes", bool, False),
        default=table.content.get("default"),
        minimum=table.number("minimum"),
        maximum=table.number("maximum"),
    )


def _languages(table: PackTable) -> list[str]:
    for language in table.content:
        if not _LANGUAGE.fullmatch(language):
            table.fail(language, f"{language!r} is not a language", "Write its code, as en or de.")
    return list(table.content)


def _check_phrases(table: PackTable, key: str, lists: Mapping[str, tuple[str, ...]]) -> None:
    """Reject invalid phrases."""
    for source in table.strings(key):
        try:
            compile_phrase(source, lists)
        except ValueError as error:
            table.fail(key, f"phrase {source!r} does not hold: {error}", "Correct the phrase.")
