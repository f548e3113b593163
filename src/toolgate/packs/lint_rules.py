"""Checks the rules of an intent: sections, tools, parameters, variables."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolgate.intents.rules import Template
from toolgate.types import json_object

_HEADING: Final = re.compile(r"^(?:#{1,4}\s+|=== ?)(?P<title>.*?)(?: ?===)?\s*$", re.MULTILINE)
_TOOL_TITLE: Final = re.compile(
    r"^\W*TOOL\b(?:\s+\d+[a-z]?)?\s*[:.–—-]\s*`?(?P<name>[A-Za-z_][\w:.-]*)`?", re.IGNORECASE
)
_GOAL: Final = re.compile(r"^\W*(?:goal|purpose|aim)\b\W*:", re.IGNORECASE | re.MULTILINE)
_PROJECT: Final = re.compile(r"\{\{\s*PROJECT_NAME\s*\}\}")
_CASE: Final = re.compile(r"^\W*CASE\s*(?P<number>[12])\b", re.IGNORECASE | re.MULTILINE)
_PARAMETERS: Final = re.compile(r"^[\s*_#]*[\w ]*parameters?\b", re.IGNORECASE)
_PARAMETER: Final = re.compile(
    r"^\s*[-*+]\s+[`*_\"]{0,3}(?P<name>[A-Za-z_][\w.-]*)[`*_\"]{0,3}\s*(?:\(|:|=|–|—|- )"
)
_NO_PARAMETER: Final = frozenset({"none", "nothing", "n"})
_TEXT: Final = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_GIVEN: Final = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_]\w*)\s*[=:](?!=)")

PARTS: Final[Mapping[str, re.Pattern[str]]] = {
    "AVAILABLE TOOLS": re.compile(r"\btools\b", re.IGNORECASE),
    "DECISION TREE": re.compile(r"decision tree", re.IGNORECASE),
    "DISAMBIGUATION": re.compile(r"disambiguat", re.IGNORECASE),
    "EXAMPLES": re.compile(r"\bexamples\b", re.IGNORECASE),
    "IMPORTANT RULES": re.compile(r"important rules", re.IGNORECASE),
    "OUT-OF-CONTEXT": re.compile(r"out[ -]of[ -]context", re.IGNORECASE),
    "FINAL NOTES": re.compile(r"final notes", re.IGNORECASE),
}
"""Patterns of the headings of the sections, in their order. The goal comes before the first
section, and a section for each tool between the first two."""


@dataclass(frozen=True, kw_only=True)
class RuleProblem:
    """A problem in a rules file."""

    rule: str
    """Name of the kind of problem."""

    line: int | None
    """Line number, from 1; None if it affects no particular line."""

    text: str
    """One sentence that describes the problem."""

    hint: str
    """One sentence that says how to fix it."""

    breaks: bool = False
    """Whether something does not work because of it."""


@dataclass(frozen=True, kw_only=True)
class _Section:
    title: str
    line: int
    text: str
    """Text from its heading to the next heading of any kind."""


def rule_problems(
    rules: str,
    *,
    tools: Sequence[str],
    schemas: Mapping[str, Mapping[str, Any]] | None,
    variables: Collection[str],
) -> Iterator[RuleProblem]:
    """Yield the problems in the rules of an intent.

    Args:
        rules: The text, with its variables.
        tools: The tools of the intent.
        schemas: Input schemas of all available tools, by name and by key; None if unknown.
        variables: Names that are allowed in double braces.
    """
    sections = _sections(rules)
    yield from _missing(rules, sections, tools)
    yield from _misplaced(sections)
    yield from _wrong_variables(rules, variables)
    if schemas is not None:
        yield from _wrong_parameters(rules, sections, tools, schemas)
    for match in re.finditer(r"\bTODO\b.*", rules):
        yield RuleProblem(
            rule="todo",
            line=_line(rules, match.start()),
            text=f"{match[0].strip()[:60]!r} still stands there.",
            hint="Write what it asks for, or remove the line.",
        )


def _sections(rules: str) -> list[_Section]:
    headings = list(_HEADING.finditer(rules))
    ends = [heading.start() for heading in headings[1:]] + [len(rules)]
    return [
        _Section(
            title=heading["title"].strip(),
            line=_line(rules, heading.start()),
            text=rules[heading.start() : end],
        )
        for heading, end in zip(headings, ends, strict=True)
    ]


def _missing(
    rules: str, sections: Sequence[_Section], tools: Sequence[str]
) -> Iterator[RuleProblem]:
    if not _GOAL.search(rules):
        yield _no_part("the goal", "Begin with a line such as: **Goal**: Help with refunds.")
    elif not _PROJECT.search(rules):
        yield _no_part(
            "the line with the project",
            "Add it below the goal: **Current project**: {{PROJECT_NAME}}",
        )
    described = {_bare(name).casefold() for section in sections if (name := _tool_of(section))}
    for part, pattern in PARTS.items():
        if not any(pattern.search(section.title) and not _tool_of(section) for section in sections):
            name = "missing-out-of-context" if part == "OUT-OF-CONTEXT" else "missing-part"
            yield _no_part(f"the part {part}", f"Add a heading: ## {part}", rule=name)
        elif part == "OUT-OF-CONTEXT":
            yield from _missing_cases(rules)
        if part == "AVAILABLE TOOLS":
            for tool in tools:
                if _bare(tool).casefold() not in described:
                    yield _no_part(
                        f"the part of the tool {tool!r}",
                        f"Add a heading: ## TOOL {len(described) + 1}: {_bare(tool)}, with its "
                        "purpose, parameters and an example below it.",
                    )


def _missing_cases(rules: str) -> Iterator[RuleProblem]:
    cases = {
        "1": "what to do with another topic: call processPrompt again",
        "2": "what to say to a message that has nothing to do with it",
    }
    there = {match["number"] for match in _CASE.finditer(rules)}
    for number, content in cases.items():
        if number not in there:
            yield _no_part(
                f"CASE {number} of the part OUT-OF-CONTEXT",
                f"Add a heading: ### CASE {number}, and below it {content}.",
                rule="missing-out-of-context",
            )


def _no_part(part: str, hint: str, *, rule: str = "missing-part") -> RuleProblem:
    return RuleProblem(rule=rule, line=None, text=f"The rules lack {part}.", hint=hint)


def _misplaced(sections: Sequence[_Section]) -> Iterator[RuleProblem]:
    last, before = -1, ""
    for part, pattern in PARTS.items():
        places = [
            at
            for at, section in enumerate(sections)
            if pattern.search(section.title) and not _tool_of(section)
        ]
        later = [at for at in places if at > last]
        if later:
            last, before = later[0], part
        elif places:
            yield RuleProblem(
                rule="order-of-parts",
                line=sections[places[0]].line,
                text=f"The part {part} stands before {before}.",
                hint=f"Move it behind {before}: models expect the parts in their order.",
            )


def _wrong_variables(rules: str, variables: Collection[str]) -> Iterator[RuleProblem]:
    template = Template(rules)
    for name in template.unknown(dict.fromkeys(variables)):
        yield RuleProblem(
            rule="unknown-variable",
            line=_line(rules, rules.find(f"{{{{{name}}}}}")),
            text=f"There is no variable {name!r}; it stays visible as it is.",
            hint=f"Known: {', '.join(sorted(variables))}. Correct it, or add it under "
            "[variables] in pack.toml.",
            breaks=True,
        )
    lines = rules.splitlines()
    for line in template.unclosed:
        yield RuleProblem(
            rule="unclosed-variable",
            line=line,
            text=f"A variable is begun and not closed: {lines[line - 1].strip()!r:.60}.",
            hint="Write it as {{NAME}}.",
            breaks=True,
        )


def _wrong_parameters(
    rules: str,
    sections: Sequence[_Section],
    tools: Sequence[str],
    schemas: Mapping[str, Mapping[str, Any]],
) -> Iterator[RuleProblem]:
    for section in sections:
        name = _tool_of(section)
        if not name:
            continue
        schema = schemas.get(name) or schemas.get(_bare(name))
        if schema is None and not any(_bare(tool) == _bare(name) for tool in tools):
            yield RuleProblem(
                rule="unknown-tool",
                line=section.line,
                text=f"There is no tool {name!r}.",
                hint="Correct its name, or remove the part.",
                breaks=True,
            )
        if schema is None:
            continue
        listed = list(_parameters(section))
        yield from _lacked(name, schema, listed)
        required: list[str] = [parameter for parameter in schema.get("required", []) if parameter]
        for parameter in required:
            if not any(parameter == listed_name for listed_name, _ in listed) and not re.search(
                rf"(?<!\w){re.escape(parameter)}(?!\w)", section.text
            ):
                yield RuleProblem(
                    rule="undocumented-parameter",
                    line=section.line,
                    text=f"The tool {name!r} needs {parameter!r}, and the rules do not say so.",
                    hint="Add a line below its required parameters: "
                    f"- {parameter} (type): what it is.",
                )
    for tool in tools:
        schema = schemas.get(tool) or schemas.get(_bare(tool))
        if schema is not None:
            yield from _lacked(_bare(tool), schema, list(_in_calls(rules, _bare(tool))))


def _lacked(
    name: str, schema: Mapping[str, Any], listed: Sequence[tuple[str, int]]
) -> Iterator[RuleProblem]:
    properties = json_object(schema.get("properties"))
    if not properties and schema.get("additionalProperties", True) is not False:
        return  # an empty schema allows all parameters
    seen: set[str] = set()
    for parameter, line in listed:
        if parameter not in properties and parameter not in seen:
            seen.add(parameter)
            yield RuleProblem(
                rule="unknown-parameter",
                line=line,
                text=f"The tool {name!r} has no parameter {parameter!r}.",
                hint=f"It has: {', '.join(properties) or 'none'}. Correct or remove it.",
                breaks=True,
            )


def _parameters(section: _Section) -> Iterator[tuple[str, int]]:
    """Yield the parameters in the section of a tool, each with its line."""
    within = False
    for number, line in enumerate(section.text.split("\n"), section.line):
        if match := _PARAMETER.match(line) if within else None:
            if match["name"].casefold() not in _NO_PARAMETER:
                yield match["name"], number
        elif _PARAMETERS.match(line):
            within = True
        elif line.strip() and not line.startswith((" ", "\t", "-", "*  ")):
            within = False


def _in_calls(rules: str, tool: str) -> Iterator[tuple[str, int]]:
    """Yield the parameters of a tool in examples: `tool(name=...)`, `tool({"name": ...})`."""
    for call in re.finditer(rf"(?<![\w.]){re.escape(tool)}\((?P<inside>[^()\n]*)\)", rules):
        inside = call["inside"]
        if inside.lstrip().startswith("{"):
            inside = re.sub(r"\"(\w+)\"\s*:", r"\1:", inside)
        for argument in _GIVEN.finditer(_TEXT.sub("''", inside)):
            yield argument["name"], _line(rules, call.start())


def _tool_of(section: _Section) -> str:
    match = _TOOL_TITLE.match(section.title)
    return match["name"].rstrip(":.-") if match else ""


def _bare(tool: str) -> str:
    """Return the tool's own name, without its server's."""
    return tool.rpartition(":")[2]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
