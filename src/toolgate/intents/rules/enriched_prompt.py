"""The enriched prompt: context, request, rules and a closing line, in this order and format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolgate.base.token_estimate import estimate_tokens

CLOSING: Final = (
    "If all required parameters are known, call the right tool now; otherwise ask the user for "
    "those that are missing."
)
"""The last line."""

_CUT: Final = "(Shortened: the rest of these rules is over the budget of {budget} tokens.)"


@dataclass(frozen=True, kw_only=True)
class RenderedRules:
    """The rules of one intent as sent to the model."""

    intent: str
    """Name of the intent."""

    pack: str
    """Pack that the rules come from."""

    text: str
    """The text with variables filled in."""

    tokens: int
    """Estimated tokens of the text."""

    confidence: float = 0.0
    """Confidence of the intent, in [0, 1]."""

    shortened: bool = False
    """Whether the rules exceed the budget, so that their end is missing."""

    unknown: tuple[str, ...] = ()
    """Variables that have no value and remain in the text."""


def context_block(pack: str, values: Mapping[str, str], notes: Sequence[str] = ()) -> str:
    """Return the context of the work: project and solution.

    Args:
        pack: Titles the block, unless the pack sets its variable `CONTEXT_TITLE`.
        values: Of `CONTEXT_TITLE`, `NO_PROJECT`, `PROJECT_NAME` and `ACTIVE_SOLUTION`.
        notes: Lines to append.
    """
    title = _line(values.get("CONTEXT_TITLE", "")) or f"{_line(pack).upper()} CONTEXT"
    project = _line(values.get("PROJECT_NAME", "UNKNOWN"))
    solution = _line(values.get("ACTIVE_SOLUTION", "UNKNOWN"))
    lines = [f"=== {title} ==="]
    if project == "UNKNOWN":
        lines.append(f"**{_line(values.get('NO_PROJECT', ''))}**")
    else:
        lines.append(f"**Current Project:** {project}")
        if solution != "UNKNOWN":
            lines.append(f"**Active Solution:** {solution}")
    return "\n".join([*lines, *notes])


def build_enriched_prompt(
    context: str, prompt: str, rules: Sequence[RenderedRules], endings: Sequence[str] = ()
) -> str:
    """Return the enriched prompt, which contains the prompt unchanged."""
    return "\n\n".join(
        [context, f"USER REQUEST:\n{prompt}", *(rule.text for rule in rules), *endings, CLOSING]
    )


def knowledge_text(
    context: str,
    rules: Sequence[tuple[RenderedRules, Sequence[str]]],
    *,
    unknown: Sequence[str] = (),
    endings: Sequence[str] = (),
) -> str:
    """Return the rules for short actions, each with its confidence and its actions.

    Args:
        context: From `context_block`.
        rules: Rules, each with the actions that it is for.
        unknown: Actions that have no rules.
        endings: Texts after the rules.
    """
    parts = [
        f"=== {rule.intent} (confidence {rule.confidence:.2f}; for {quote_queries(queries)}) ===\n"
        f"{rule.text}"
        for rule, queries in rules
    ]
    missing = [f"There are no rules for {quote_queries(unknown)}."] if unknown else []
    return "\n\n".join([context, *parts, *missing, *endings, CLOSING])


def fit_budget(
    rules: Sequence[RenderedRules], budget_tokens: int
) -> tuple[list[RenderedRules], list[RenderedRules]]:
    """Return the rules that fit the budget, best first, and those that are left out.

    The first rules are always included, shortened if they alone exceed the budget; the others
    only whole.
    """
    fitting: list[RenderedRules] = []
    left_out: list[RenderedRules] = []
    remaining = budget_tokens
    for rule in rules:
        if not fitting and rule.tokens > remaining:
            rule = _shortened(rule, budget_tokens)  # noqa: PLW2901 - the same rules, shorter
        if rule.tokens > remaining:
            left_out.append(rule)
            continue
        fitting.append(rule)
        remaining -= rule.tokens
    return fitting, left_out


def _shortened(rules: RenderedRules, budget_tokens: int) -> RenderedRules:
    """Shorten rules to the whole paragraphs that fit, and a line that says so."""
    note = _CUT.format(budget=budget_tokens)
    most_bytes = 4 * (budget_tokens - estimate_tokens(note) - 1)
    raw = rules.text.encode("utf-8", "replace")[: max(most_bytes, 0)]
    # The cut may be inside a character: the rest of it is dropped.
    text = raw.decode("utf-8", "ignore")
    for end in ("\n\n", "\n", " "):
        cut = text.rfind(end)
        # At a paragraph, else at a line or a word, unless more than half the text would be lost.
        if cut > len(text) // 2:
            text = text[:cut]
            break
    text = f"{text.rstrip()}\n\n{note}"
    return RenderedRules(
        intent=rules.intent,
        pack=rules.pack,
        text=text,
        tokens=estimate_tokens(text),
        confidence=rules.confidence,
        shortened=True,
        unknown=rules.unknown,
    )


def quote_queries(queries: Sequence[str]) -> str:
    """Quote texts of others in one line."""
    return ", ".join(f'"{_line(query)[:100]}"' for query in queries)


def _line(text: str) -> str:
    """Put a text in one line: a value must not look like a part of the format."""
    return " ".join(text.split())
