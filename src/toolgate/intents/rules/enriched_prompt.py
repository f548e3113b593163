"""The enriched prompt: context, request, rules and a closing line, in this order and form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolgate.base.token_estimate import estimate_tokens

__all__ = [
    "CLOSING",
    "RenderedRules",
    "build_enriched_prompt",
    "context_block",
    "fit_budget",
    "knowledge_text",
    "quote_queries",
]

CLOSING: Final = (
    "If all required parameters are known, call the right tool now; otherwise ask the user for "
    "those that are missing."
)
"""The last line."""

_CUT: Final = "(Shortened: the rest of these rules is over the budget of {budget} tokens.)"


@dataclass(frozen=True, kw_only=True)
class RenderedRules:
    """The rules of one intent as a model gets them."""

    intent: str
    """Its name."""

    pack: str
    """Whose rules they are."""

    text: str
    """With variables filled in."""

    tokens: int
    """Estimated tokens of the text."""

    confidence: float = 0.0
    """How sure the intent is, in [0, 1]."""

    shortened: bool = False
    """Whether they are over the budget, so that their end is missing."""

    unknown: tuple[str, ...] = ()
    """Variables that have no value and stay visible."""


def context_block(pack: str, values: Mapping[str, str], notes: Sequence[str] = ()) -> str:
    """What is known of the place where the work is done.

    Args:
        pack: Names the block, unless the pack does by its variable `CONTEXT_TITLE`.
        values: Of `CONTEXT_TITLE`, `NO_PROJECT`, `PROJECT_NAME` and `ACTIVE_SOLUTION`.
        notes: Lines to follow.
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
    """The enriched prompt; the prompt stands in it unchanged."""
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
    """What is known of short actions: rules, each with how sure it is and what they are for.

    Args:
        context: From `context_block`.
        rules: Rules with the actions that they are for.
        unknown: Actions that no rules belong to.
        endings: What follows the rules.
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
    """Those that fit the budget, best first, and those that are left out.

    The first are always given, shortened where they alone are over the budget; of the others only
    whole ones.
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
    """As many whole paragraphs as fit, and a line that says so."""
    note = _CUT.format(budget=budget_tokens)
    most_bytes = 4 * (budget_tokens - estimate_tokens(note) - 1)
    raw = rules.text.encode("utf-8", "replace")[: max(most_bytes, 0)]
    # The cut may lie within a character: what is left of that is dropped.
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
    """Texts of others in one line."""
    return ", ".join(f'"{_line(query)[:100]}"' for query in queries)


def _line(text: str) -> str:
    """In one line: a value must not look like a part of the form."""
    return " ".join(text.split())
