"""`toolgate pack lint`: what is wrong with a pack, and how to mend it.

Knows no files beyond those of the pack, and starts nothing: what the prompts teach, and which tools
there are, comes from whoever asks.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from toolgate.base.pack_files import PackFile
from toolgate.errors import PackError
from toolgate.intents import Intent, Neighbours, SemanticModel
from toolgate.packs import lint_tools
from toolgate.packs.base import Pack
from toolgate.packs.lint_rules import Lack, lacks

__all__ = ["Finding", "IntentFigures", "Level", "Lint", "lint"]

Level: TypeAlias = Literal["error", "warning", "advice"]
"""`error`: something does not work. `warning`: messages will be misunderstood, or a model misled.
`advice`: it could be better."""

FEWEST: Final = 5
"""An intent with fewer prompts is known by luck."""

WANTED: Final = 100
"""Prompts to aim for: https://aclanthology.org/D19-1131 and others gain from 10 to 100 an intent as
much as from all else together."""

_WEAK: Final = 0.8
"""Below this share of prompts that are told right without being known, an intent is named."""

_ALIKE: Final = 0.92
"""Similarity from which on two prompts say the same; most pairs that differ in one small word."""

_NEARER: Final = 0.15
"""By so much a prompt must be nearer to another intent's than to its own.

With 5 % of the prompts put into another intent, of ten an intent of hwu64 and banking77, this names
76 of the 79 that were moved; 0.02 names all of them and two to five times as many good ones.
"""

_OPENING: Final = 0.6
"""Share of prompts that may begin with the same word."""

_SHOWN: Final = 10
"""Prompts of a kind that are named for an intent; of the others the number is told."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong with a pack."""

    rule: str
    """What kind of fault, as `duplicate-prompt`."""

    level: Level
    """How bad it is."""

    intent: str = ""
    """The intent that it is about; empty: the pack as a whole."""

    file: str = ""
    """Path below the pack's folder."""

    line: int | None = None
    """From 1 on."""

    text: str
    """One sentence that says it."""

    mend: str
    """One sentence that says how to mend it."""


@dataclass(frozen=True, kw_only=True)
class IntentFigures:
    """An intent in numbers."""

    name: str
    """Its name."""

    prompts: int
    """Example prompts, in all languages."""

    keywords: int
    """Keywords and phrases, in all languages."""

    accuracy: float | None
    """Share of its prompts that a model recognises that did not know them; None: too few to say."""

    tools: tuple[str, ...]
    """Its tools."""

    rules_bytes: int
    """Size of its rules; 0 without any."""


@dataclass(frozen=True, kw_only=True)
class Lint:
    """What was found in a pack."""

    pack: str
    """Its name."""

    folder: str
    """Where it is."""

    findings: tuple[Finding, ...]
    """The worst first, then by file and line."""

    intents: tuple[IntentFigures, ...]
    """In their order."""

    def count(self, level: Level) -> int:
        """How many findings are so bad."""
        return sum(1 for each in self.findings if each.level == level)


def lint(
    pack: Pack,
    *,
    model: SemanticModel | None,
    schemas: Mapping[str, Mapping[str, Any]] | None,
    variables: Collection[str],
    unlisted: Collection[str] = (),
) -> Lint:
    """What is wrong with a pack.

    Args:
        pack: As it was read.
        model: What its prompts teach; None: it has none.
        schemas: Input schemas of all tools there are, by name and by key; None: not known.
        variables: Names that rules may use besides the pack's own.
        unlisted: Servers whose tools are not known; one that is missing may be theirs.
    """
    files = _Prompts(pack)
    found = [
        *_unusable(pack),
        *_of_intents(pack, schemas, unlisted),
        *_of_prompts(pack, files),
        *_of_rules(pack, schemas, {*variables, *pack.variables}),
    ]
    if schemas is not None:
        found += _unasked(pack, files, schemas)
    if model is not None:
        found += _of_model(files, model)
    if not pack.intents and not (pack.has_server or pack.servers):
        found.append(
            Finding(
                rule="no-intents",
                level="error",
                text="The pack has no intent and no tool.",
                mend="Add a file intents/NAME.txt with a message a line, or a file tools/NAME.py.",
            )
        )
    ranks = {"error": 0, "warning": 1, "advice": 2}
    found.sort(key=lambda each: (ranks[each.level], each.file, each.line or 0, each.rule))
    return Lint(
        pack=pack.name,
        folder=str(pack.folder),
        findings=tuple(found),
        intents=tuple(_figures(pack, intent, model) for intent in pack.intents),
    )


class _Prompts:
    """The prompts as they stand in the files, with their lines."""

    def __init__(self, pack: Pack) -> None:
        self._of: dict[str, list[tuple[str, int, str]]] = {}
        known = {intent.name.casefold() for intent in pack.intents}
        for home in ("intents", "embeddings", "."):
            for path in sorted((pack.folder / home).glob("*.txt")):
                name = path.stem.casefold()
                name = name if name in known else name.rpartition(".")[0]
                if name in known:
                    self._of.setdefault(name, []).extend(_numbered(path, pack.folder))

    def of(self, intent: str) -> Sequence[tuple[str, int, str]]:
        """File, line and text of each prompt of an intent."""
        return self._of.get(intent.casefold(), [])

    def place(self, intent: str, prompt: str) -> tuple[str, int | None]:
        """Where a prompt stands."""
        for file, line, text in self.of(intent):
            if text == prompt:
                return file, line
        return "", None


def _numbered(path: Path, folder: Path) -> Iterator[tuple[str, int, str]]:
    try:
        text = PackFile(path).text
    except PackError:
        return  # `Pack.problems` says so
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if plain and not plain.startswith("#"):
            yield path.relative_to(folder).as_posix(), number, plain


def _unusable(pack: Pack) -> Iterator[Finding]:
    for problem in pack.problems:
        said, _, mend = problem.partition(". ")
        yield Finding(
            rule="unusable-file",
            level="error",
            text=f"{said.rstrip('.')}.",
            mend=mend or "Correct the file.",
        )


def _of_intents(
    pack: Pack, schemas: Mapping[str, Mapping[str, Any]] | None, unlisted: Collection[str]
) -> Iterator[Finding]:
    for intent in pack.intents:
        for tool in intent.tools:
            if schemas is not None and tool not in schemas:
                maybe = f", unless {', '.join(unlisted)} has it, whose tools are not known yet"
                yield Finding(
                    rule="unknown-tool",
                    level="warning" if unlisted else "error",
                    intent=intent.name,
                    file=_table_of(pack, intent),
                    text=f"There is no tool {tool!r}{maybe if unlisted else ''}.",
                    mend="Correct the name, or bring the tool: a function in tools/, or a server.",
                )
        if not pack.rules_of(intent.name):
            yield Finding(
                rule="missing-rules",
                level="warning" if pack.rules or any(intent.prompts.values()) else "advice",
                intent=intent.name,
                text=f"{intent.name} has no rules, so that a model is told nothing.",
                mend=f"Write rules/{intent.name.lower()}.md; `toolgate pack new` shows its parts.",
            )


def _of_prompts(pack: Pack, files: _Prompts) -> Iterator[Finding]:
    owners: dict[str, tuple[str, str, int]] = {}
    for intent in pack.intents:
        mine = files.of(intent.name)
        if not mine and not intent.keywords:
            yield Finding(
                rule="no-prompts",
                level="error",
                intent=intent.name,
                text=f"Nothing tells {intent.name}: it has no prompts and no keywords.",
                mend=f"Add a file intents/{intent.name.lower()}.txt with a message a line.",
            )
        for file, line, text in mine:
            key = _plain(text)
            if key not in owners:
                owners[key] = intent.name, file, line
                continue
            other, there, number = owners[key]
            same = other == intent.name
            yield Finding(
                rule="duplicate-prompt",
                level="warning" if same else "error",
                intent=intent.name,
                file=file,
                line=line,
                text=f"{_short(text)} stands in {there}:{number} already"
                + ("." if same else f", as a message for {other}."),
                mend="Remove one of the two." if same else "Decide for one of the two intents.",
            )
        yield from _few(intent, mine)
        yield from _one_sided(intent, mine)


def _few(intent: Intent, mine: Sequence[tuple[str, int, str]]) -> Iterator[Finding]:
    if not 0 < len(mine) < WANTED:
        return
    kinds = "formal, casual, technical, business, misspelt and ambiguous ones"
    yield Finding(
        rule="few-prompts",
        level="warning" if len(mine) < FEWEST and not intent.keywords else "advice",
        intent=intent.name,
        file=mine[0][0],
        text=f"{intent.name} has {len(mine)} prompt{'' if len(mine) == 1 else 's'}.",
        mend=f"Add some: {FEWEST} are the least, {WANTED} to {2 * WANTED} the aim; {kinds}.",
    )


def _one_sided(intent: Intent, mine: Sequence[tuple[str, int, str]]) -> Iterator[Finding]:
    if len(mine) < FEWEST:
        return
    first = Counter(_plain(text).partition(" ")[0] for _, _, text in mine)
    word, count = first.most_common(1)[0]
    if count / len(mine) > _OPENING:
        yield Finding(
            rule="one-sided-prompts",
            level="warning",
            intent=intent.name,
            file=mine[0][0],
            text=f"{count} of {len(mine)} prompts of {intent.name} begin with {word!r}.",
            mend="Say the same in other words: as a question, as a wish, without a verb.",
        )
    lengths = {len(_plain(text).split()) for _, _, text in mine}
    if len(mine) >= 2 * FEWEST and max(lengths) - min(lengths) < 2:
        yield Finding(
            rule="one-sided-prompts",
            level="warning",
            intent=intent.name,
            file=mine[0][0],
            text=f"All prompts of {intent.name} are as long as each other.",
            mend="Add short ones of two words, and whole sentences.",
        )


def _unasked(
    pack: Pack, files: _Prompts, schemas: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    for intent in pack.intents:
        mine = files.of(intent.name)
        tools = [tool for tool in intent.tools if tool in schemas]
        if len(mine) < FEWEST:
            continue  # `few-prompts` says what is missing
        for tool in lint_tools.unasked(tools, [text for _, _, text in mine]):
            yield Finding(
                rule="unasked-tool",
                level="warning",
                intent=intent.name,
                file=mine[0][0],
                text=f"No prompt of {intent.name} asks for what the tool {tool!r} does.",
                mend=f"Add some: {lint_tools.example(tool)}.",
            )


def _of_rules(
    pack: Pack, schemas: Mapping[str, Mapping[str, Any]] | None, variables: Collection[str]
) -> Iterator[Finding]:
    for intent in pack.intents:
        rules = pack.rules_of(intent.name)
        path = pack.rule_files.get(intent.name.casefold())
        if not rules or path is None:
            continue
        file = path.relative_to(pack.folder).as_posix()
        for lack in lacks(rules, tools=intent.tools, schemas=schemas, variables=variables):
            yield Finding(
                rule=lack.rule,
                level=_level(lack),
                intent=intent.name,
                file=file,
                line=lack.line,
                text=lack.text,
                mend=lack.mend,
            )
    known = {intent.name.casefold() for intent in pack.intents}
    for name, path in pack.rule_files.items():
        if name not in known:
            yield Finding(
                rule="rules-without-intent",
                level="warning",
                file=path.relative_to(pack.folder).as_posix(),
                text=f"There is no intent {path.stem!r}, so that nobody gets these rules.",
                mend="Name the file like its intent, or add the intent.",
            )


def _level(lack: Lack) -> Level:
    if lack.breaks:
        return "error"
    return "advice" if lack.rule in {"todo", "order-of-parts"} else "warning"


def _of_model(files: _Prompts, model: SemanticModel) -> Iterator[Finding]:
    if len([name for name in model.lessons.intents if name]) < 2:
        return
    shares = model.recognised()
    for name, (right, count) in shares.items():
        if count >= FEWEST and right / count < _WEAK:
            yield Finding(
                rule="weak-intent",
                level="warning",
                intent=name,
                text=f"{right} of {count} prompts of {name} are recognised by the others.",
                mend="Look at its prompts that are nearer to another intent, and add some that say "
                "what only this intent does.",
            )
    near: dict[str, list[Finding]] = {}
    for one in model.neighbours():
        if one.other_similarity >= _ALIKE:
            near.setdefault(f"{one.intent}\0same", []).append(_alike(files, one))
        elif one.other_similarity > one.own_similarity + _NEARER and not one.recognised:
            near.setdefault(f"{one.intent}\0near", []).append(_stray(files, one))
    for each in near.values():
        yield from _bounded(each)


def _alike(files: _Prompts, one: Neighbours) -> Finding:
    file, line = files.place(one.intent, one.prompt)
    there, number = files.place(one.other_intent, one.other_prompt)
    return Finding(
        rule="near-duplicate",
        level="warning",
        intent=one.intent,
        file=file,
        line=line,
        text=f"{_short(one.prompt)} is nearly {_short(one.other_prompt)} of {one.other_intent} "
        f"({there}:{number}).",
        mend="Remove one, or say in each what only its intent does.",
    )


def _stray(files: _Prompts, one: Neighbours) -> Finding:
    file, line = files.place(one.intent, one.prompt)
    return Finding(
        rule="nearer-to-another-intent",
        level="warning",
        intent=one.intent,
        file=file,
        line=line,
        text=f"{_short(one.prompt)} is nearer to {one.other_intent} "
        f"({_short(one.other_prompt)}, {one.other_similarity:.2f}) than to its own intent "
        f"({one.own_similarity:.2f}).",
        mend=f"Move it to {one.other_intent}, make it plainer, or add more like it.",
    )


def _bounded(found: Sequence[Finding]) -> Iterable[Finding]:
    """The first of them; the last one shown tells of the others."""
    shown = list(found[:_SHOWN])
    if len(found) > _SHOWN:
        more = len(found) - _SHOWN
        shown[-1] = replace(shown[-1], text=f"{shown[-1].text} There are {more} more such prompts.")
    return shown


def _figures(pack: Pack, intent: Intent, model: SemanticModel | None) -> IntentFigures:
    right, count = (model.recognised() if model else {}).get(intent.name, (0, 0))
    several = model is not None and len([name for name in model.lessons.intents if name]) > 1
    words = (
        (*each.exact, *each.partial, *each.patterns, *each.weak_patterns)
        for each in intent.keywords.values()
    )
    return IntentFigures(
        name=intent.name,
        prompts=sum(map(len, intent.prompts.values())),
        keywords=sum(map(len, words)),
        accuracy=round(right / count, 4) if several and count else None,
        tools=intent.tools,
        rules_bytes=len(pack.rules_of(intent.name).encode("utf-8", "replace")),
    )


def _table_of(pack: Pack, intent: Intent) -> str:
    path = pack.folder / "intents" / f"{intent.name.lower()}.toml"
    return f"intents/{path.name}" if path.is_file() else ""


def _plain(text: str) -> str:
    """The words of a prompt alone: what people see as the same is the same."""
    words = "".join(sign if sign.isalnum() else " " for sign in text.casefold()).split()
    return " ".join(words) or text


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
