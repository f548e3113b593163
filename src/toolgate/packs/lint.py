"""`toolgate pack lint`: finds problems of a pack, and says how to fix them.

Only reads the files of the pack, and starts nothing: the trained model and the schemas of tools
are passed in.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from toolgate.base.pack_files import PackFile
from toolgate.errors import PackError
from toolgate.intents import Intent, PromptNeighbours, SemanticModel
from toolgate.packs import lint_tools
from toolgate.packs.base import Pack
from toolgate.packs.lint_rules import RuleProblem, rule_problems

Level: TypeAlias = Literal["error", "warning", "advice"]
"""`error`: something does not work. `warning`: messages will be misunderstood, or a model
misled. `advice`: a possible improvement."""

FEWEST: Final = 5
"""Number of prompts below which detecting an intent is a matter of luck (chosen)."""

WANTED: Final = 100
"""Number of prompts to aim for: in https://aclanthology.org/D19-1131 and others, going from 10
to 100 per intent helps as much as all other measures together."""

_WEAK: Final = 0.8
"""Held-out accuracy below which an intent is reported (chosen)."""

_ALIKE: Final = 0.92
"""Similarity from which two prompts count as the same; most such pairs differ in one small word."""

_NEARER: Final = 0.15
"""How much more similar a prompt must be to another intent than to its own to be reported.

With 5 % of the prompts moved to another intent, at ten prompts per intent of hwu64 and
banking77, this reports 76 of the 79 that were moved; 0.02 reports all of them, and two to five
times as many correct ones.
"""

_OPENING: Final = 0.6
"""Share of prompts that may start with the same word (chosen)."""

_SHOWN: Final = 10
"""Findings of a kind that are listed per intent (chosen); further ones are counted."""


@dataclass(frozen=True, kw_only=True)
class LintFinding:
    """A problem of a pack."""

    rule: str
    """Kind of problem, such as `duplicate-prompt`."""

    level: Level
    """Severity."""

    intent: str = ""
    """The affected intent; empty: the pack as a whole."""

    file: str = ""
    """Path relative to the pack's folder."""

    line: int | None = None
    """Line number, from 1."""

    text: str
    """One sentence that describes the problem."""

    hint: str
    """One sentence that says how to fix it."""


@dataclass(frozen=True, kw_only=True)
class IntentFigures:
    """Statistics of an intent."""

    name: str
    """Its name."""

    prompts: int
    """Example prompts, in all languages."""

    keywords: int
    """Keywords and phrases, in all languages."""

    accuracy: float | None
    """Share of its prompts that a model recognises without having seen them; None: too few
    prompts."""

    tools: tuple[str, ...]
    """Its tools."""

    rules_bytes: int
    """Size of its rules; 0 if it has none."""


@dataclass(frozen=True, kw_only=True)
class LintReport:
    """The problems of a pack."""

    pack: str
    """Name of the pack."""

    folder: str
    """Folder of the pack."""

    findings: tuple[LintFinding, ...]
    """Problems, most severe first, then by file and line."""

    intents: tuple[IntentFigures, ...]
    """Statistics of the intents, in their order."""

    def count(self, level: Level) -> int:
        """Return the number of findings with a level."""
        return sum(1 for finding in self.findings if finding.level == level)


def lint(
    pack: Pack,
    *,
    model: SemanticModel | None,
    schemas: Mapping[str, Mapping[str, Any]] | None,
    variables: Collection[str],
    unlisted: Collection[str] = (),
) -> LintReport:
    """Check a pack.

    Args:
        pack: The pack as read.
        model: Trained on its prompts; None if there is none.
        schemas: Input schemas of all available tools, by name and by key; None if unknown.
        variables: Names that rules may use besides the pack's own.
        unlisted: Servers whose tools are unknown; a missing tool may be one of theirs.
    """
    files = _PromptFiles(pack)
    findings = [
        *_unusable(pack),
        *_of_intents(pack, schemas, unlisted),
        *_of_prompts(pack, files),
        *_of_rules(pack, schemas, {*variables, *pack.variables}),
    ]
    if schemas is not None:
        findings += _unasked(pack, files, schemas)
    if model is not None:
        findings += _of_model(files, model)
    if not pack.intents and not (pack.has_server or pack.servers):
        findings.append(
            LintFinding(
                rule="no-intents",
                level="error",
                text="The pack has no intent and no tool.",
                hint="Add a file intents/NAME.txt with a message a line, or a file tools/NAME.py.",
            )
        )
    ranks = {"error": 0, "warning": 1, "advice": 2}
    findings.sort(
        key=lambda finding: (ranks[finding.level], finding.file, finding.line or 0, finding.rule)
    )
    return LintReport(
        pack=pack.name,
        folder=str(pack.folder),
        findings=tuple(findings),
        intents=tuple(_figures(pack, intent, model) for intent in pack.intents),
    )


class _PromptFiles:
    """The prompts in the files, with their lines."""

    def __init__(self, pack: Pack) -> None:
        self._of: dict[str, list[tuple[str, int, str]]] = {}
        intents = {intent.name.casefold() for intent in pack.intents}
        for home in ("intents", "embeddings", "."):
            for path in sorted((pack.folder / home).glob("*.txt")):
                name = path.stem.casefold()
                name = name if name in intents else name.rpartition(".")[0]
                if name in intents:
                    self._of.setdefault(name, []).extend(_numbered(path, pack.folder))

    def of(self, intent: str) -> Sequence[tuple[str, int, str]]:
        """Return file, line and text of each prompt of an intent."""
        return self._of.get(intent.casefold(), [])

    def location(self, intent: str, prompt: str) -> tuple[str, int | None]:
        """Return file and line of a prompt."""
        for file, line, text in self.of(intent):
            if text == prompt:
                return file, line
        return "", None


def _numbered(path: Path, folder: Path) -> Iterator[tuple[str, int, str]]:
    try:
        text = PackFile(path).text
    except PackError:
        return  # `Pack.problems` reports it
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if plain and not plain.startswith("#"):
            yield path.relative_to(folder).as_posix(), number, plain


def _unusable(pack: Pack) -> Iterator[LintFinding]:
    for problem in pack.problems:
        text, _, hint = problem.partition(". ")
        yield LintFinding(
            rule="unusable-file",
            level="error",
            text=f"{text.rstrip('.')}.",
            hint=hint or "Correct the file.",
        )


def _of_intents(
    pack: Pack, schemas: Mapping[str, Mapping[str, Any]] | None, unlisted: Collection[str]
) -> Iterator[LintFinding]:
    for intent in pack.intents:
        for tool in intent.tools:
            if schemas is not None and tool not in schemas:
                maybe = f", unless {', '.join(unlisted)} has it, whose tools are not known yet"
                yield LintFinding(
                    rule="unknown-tool",
                    level="warning" if unlisted else "error",
                    intent=intent.name,
                    file=_table_of(pack, intent),
                    text=f"There is no tool {tool!r}{maybe if unlisted else ''}.",
                    hint="Correct the name, or bring the tool: a function in tools/, or a server.",
                )
        if not pack.rules_of(intent.name):
            yield LintFinding(
                rule="missing-rules",
                level="warning" if pack.rules or any(intent.prompts.values()) else "advice",
                intent=intent.name,
                text=f"{intent.name} has no rules, so that a model is told nothing.",
                hint=f"Write rules/{intent.name.lower()}.md; `toolgate pack new` shows its parts.",
            )


def _of_prompts(pack: Pack, files: _PromptFiles) -> Iterator[LintFinding]:
    owners: dict[str, tuple[str, str, int]] = {}
    for intent in pack.intents:
        prompts = files.of(intent.name)
        if not prompts and not intent.keywords:
            yield LintFinding(
                rule="no-prompts",
                level="error",
                intent=intent.name,
                text=f"Nothing tells {intent.name}: it has no prompts and no keywords.",
                hint=f"Add a file intents/{intent.name.lower()}.txt with a message a line.",
            )
        for file, line, text in prompts:
            key = _plain(text)
            if key not in owners:
                owners[key] = intent.name, file, line
                continue
            other, there, number = owners[key]
            same = other == intent.name
            yield LintFinding(
                rule="duplicate-prompt",
                level="warning" if same else "error",
                intent=intent.name,
                file=file,
                line=line,
                text=f"{_short(text)} is also in {there}:{number}"
                + ("." if same else f", as a message for {other}."),
                hint="Remove one of the two." if same else "Decide for one of the two intents.",
            )
        yield from _few(intent, prompts)
        yield from _one_sided(intent, prompts)


def _few(intent: Intent, prompts: Sequence[tuple[str, int, str]]) -> Iterator[LintFinding]:
    if not 0 < len(prompts) < WANTED:
        return
    kinds = "formal, casual, technical, business, misspelled and ambiguous ones"
    yield LintFinding(
        rule="few-prompts",
        level="warning" if len(prompts) < FEWEST and not intent.keywords else "advice",
        intent=intent.name,
        file=prompts[0][0],
        text=f"{intent.name} has {len(prompts)} prompt{'' if len(prompts) == 1 else 's'}.",
        hint=f"Add prompts: at least {FEWEST} are required, aim for {WANTED} to {2 * WANTED};"
        f" {kinds}.",
    )


def _one_sided(intent: Intent, prompts: Sequence[tuple[str, int, str]]) -> Iterator[LintFinding]:
    if len(prompts) < FEWEST:
        return
    first = Counter(_plain(text).partition(" ")[0] for _, _, text in prompts)
    word, count = first.most_common(1)[0]
    if count / len(prompts) > _OPENING:
        yield LintFinding(
            rule="one-sided-prompts",
            level="warning",
            intent=intent.name,
            file=prompts[0][0],
            text=f"{count} of {len(prompts)} prompts of {intent.name} begin with {word!r}.",
            hint="Say the same in other words: as a question, as a wish, without a verb.",
        )
    lengths = {len(_plain(text).split()) for _, _, text in prompts}
    if len(prompts) >= 2 * FEWEST and max(lengths) - min(lengths) < 2:
        yield LintFinding(
            rule="one-sided-prompts",
            level="warning",
            intent=intent.name,
            file=prompts[0][0],
            text=f"All prompts of {intent.name} are as long as each other.",
            hint="Add short ones of two words, and whole sentences.",
        )


def _unasked(
    pack: Pack, files: _PromptFiles, schemas: Mapping[str, Mapping[str, Any]]
) -> Iterator[LintFinding]:
    for intent in pack.intents:
        prompts = files.of(intent.name)
        tools = [tool for tool in intent.tools if tool in schemas]
        if len(prompts) < FEWEST:
            continue  # `few-prompts` reports it
        for tool in lint_tools.tools_without_prompts(tools, [text for _, _, text in prompts]):
            yield LintFinding(
                rule="tool-without-prompt",
                level="warning",
                intent=intent.name,
                file=prompts[0][0],
                text=f"No prompt of {intent.name} asks for what the tool {tool!r} does.",
                hint=f"Add some: {lint_tools.example(tool)}.",
            )


def _of_rules(
    pack: Pack, schemas: Mapping[str, Mapping[str, Any]] | None, variables: Collection[str]
) -> Iterator[LintFinding]:
    for intent in pack.intents:
        rules = pack.rules_of(intent.name)
        path = pack.rule_files.get(intent.name.casefold())
        if not rules or path is None:
            continue
        file = path.relative_to(pack.folder).as_posix()
        for lack in rule_problems(rules, tools=intent.tools, schemas=schemas, variables=variables):
            yield LintFinding(
                rule=lack.rule,
                level=_level(lack),
                intent=intent.name,
                file=file,
                line=lack.line,
                text=lack.text,
                hint=lack.hint,
            )
    intents = {intent.name.casefold() for intent in pack.intents}
    for name, path in pack.rule_files.items():
        if name not in intents:
            yield LintFinding(
                rule="rules-without-intent",
                level="warning",
                file=path.relative_to(pack.folder).as_posix(),
                text=f"There is no intent {path.stem!r}, so nobody gets these rules.",
                hint="Name the file like its intent, or add the intent.",
            )


def _level(lack: RuleProblem) -> Level:
    if lack.breaks:
        return "error"
    return "advice" if lack.rule in {"todo", "order-of-parts"} else "warning"


def _of_model(files: _PromptFiles, model: SemanticModel) -> Iterator[LintFinding]:
    if len([name for name in model.training_set.intents if name]) < 2:
        return
    shares = model.recognised()
    for name, (right, count) in shares.items():
        if count >= FEWEST and right / count < _WEAK:
            yield LintFinding(
                rule="weak-intent",
                level="warning",
                intent=name,
                text=f"{right} of {count} prompts of {name} are recognised by the others.",
                hint="Look at its prompts that are nearer to another intent, and add some that say "
                "what only this intent does.",
            )
    near: dict[str, list[LintFinding]] = {}
    for pair in model.neighbours():
        if pair.other_similarity >= _ALIKE:
            near.setdefault(f"{pair.intent}\0same", []).append(_alike(files, pair))
        elif pair.other_similarity > pair.own_similarity + _NEARER and not pair.recognised:
            near.setdefault(f"{pair.intent}\0near", []).append(_stray(files, pair))
    for findings in near.values():
        yield from _bounded(findings)


def _alike(files: _PromptFiles, pair: PromptNeighbours) -> LintFinding:
    file, line = files.location(pair.intent, pair.prompt)
    there, number = files.location(pair.other_intent, pair.other_prompt)
    return LintFinding(
        rule="near-duplicate",
        level="warning",
        intent=pair.intent,
        file=file,
        line=line,
        text=f"{_short(pair.prompt)} is nearly {_short(pair.other_prompt)} of {pair.other_intent} "
        f"({there}:{number}).",
        hint="Remove one, or say in each what only its intent does.",
    )


def _stray(files: _PromptFiles, pair: PromptNeighbours) -> LintFinding:
    file, line = files.location(pair.intent, pair.prompt)
    return LintFinding(
        rule="nearer-to-another-intent",
        level="warning",
        intent=pair.intent,
        file=file,
        line=line,
        text=f"{_short(pair.prompt)} is nearer to {pair.other_intent} "
        f"({_short(pair.other_prompt)}, {pair.other_similarity:.2f}) than to its own intent "
        f"({pair.own_similarity:.2f}).",
        hint=f"Move it to {pair.other_intent}, make it plainer, or add more like it.",
    )


def _bounded(findings: Sequence[LintFinding]) -> Iterable[LintFinding]:
    """Return the first findings; the last of them mentions the number of further ones."""
    listed = list(findings[:_SHOWN])
    if len(findings) > _SHOWN:
        more = len(findings) - _SHOWN
        listed[-1] = replace(
            listed[-1], text=f"{listed[-1].text} There are {more} more such prompts."
        )
    return listed


def _figures(pack: Pack, intent: Intent, model: SemanticModel | None) -> IntentFigures:
    right, count = (model.recognised() if model else {}).get(intent.name, (0, 0))
    several = model is not None and len([name for name in model.training_set.intents if name]) > 1
    words = (
        (*keywords.exact, *keywords.partial, *keywords.patterns, *keywords.weak_patterns)
        for keywords in intent.keywords.values()
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
    """Reduce a prompt to its words, so that prompts which look the same to people are equal."""
    words = "".join(sign if sign.isalnum() else " " for sign in text.casefold()).split()
    return " ".join(words) or text


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
