"""Full definitions of a few tools, within a token budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.search.answer.safe_text import clean, cut
from toolgate.search.answer.signature import signature
from toolgate.types import Json, json_array, json_object

_RESERVE_TOKENS = 60
"""Tokens of the budget reserved for the notice about what was left out; chosen."""
_SHORT_CHARS = 300
"""Most characters of a shortened description; chosen."""
_NOTICE_CHARS = 300
"""Most characters of a notice; chosen."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """The answer of `tool_describe`."""

    tools: tuple[Json, ...]
    """`toolKey description kind? inputSchema outputSchema? annotations? signature?`, in the
    order requested.

    A shortened definition has `shortened`, which says what is missing.
    """

    notice: str = ""
    """What was left out to meet the budget; empty if nothing was."""

    text: str = ""
    """The same for a model: one JSON object per line, then the notice."""

    tokens: int = 0
    """Estimated tokens of `text`."""

    def structured(self) -> Json:
        """Return `tools`, `notice?` and `estimatedTokens`."""
        body: Json = {"tools": list(self.tools), "estimatedTokens": self.tokens}
        return body | ({"notice": self.notice} if self.notice else {})


def describe_tools(
    tools: Sequence[tuple[str, Json]], *, budget_tokens: int, notices: Sequence[str] = ()
) -> Description:
    """Return definitions, the first ones as complete as the budget allows.

    Each tool gets an equal share of the remaining budget. One that needs more loses its output
    schema first, then the texts in its input schema; at last a signature replaces that schema.
    """
    entries: list[Json] = []
    remarks = " ".join(cut(clean(notice), _NOTICE_CHARS) for notice in notices)
    left = budget_tokens - _RESERVE_TOKENS - estimate_tokens(remarks)
    omitted: list[str] = []
    for number, (key, definition) in enumerate(tools):
        # What a short tool does not use of its share goes to the tools after it.
        share = left // max(len(tools) - number, 1)
        entry = next(
            (
                form
                for shorten in (_whole, _without_output, _without_texts, _signature_only)
                if _tokens(form := shorten(key, definition)) <= share
            ),
            None,
        )
        if entry is None:
            omitted.append(key)
            continue
        entries.append(entry)
        left -= _tokens(entry)
    notice = remarks
    if omitted:
        names = cut(clean(", ".join(omitted)), 120)
        left_out = f"Left out for the budget: {names}. Describe fewer tools at a time."
        notice = f"{remarks} {left_out}".strip()
    lines = [json_text.dumps(entry).decode() for entry in entries]
    text = "\n".join([*lines, notice] if notice else lines)
    return Description(tools=tuple(entries), notice=notice, text=text, tokens=estimate_tokens(text))


def _tokens(entry: Json) -> int:
    # One more for the line break between two objects.
    return estimate_tokens(json_text.dumps(entry)) + 1


def _whole(key: str, definition: Json) -> Json:
    entry: Json = {"toolKey": key}
    if isinstance(definition.get("description"), str):
        entry["description"] = definition["description"]
    for member in ("kind", "inputSchema", "outputSchema", "annotations"):
        if member in definition:
            entry[member] = definition[member]
    return entry


def _without_output(key: str, definition: Json) -> Json:
    entry = _whole(key, definition)
    if entry.pop("outputSchema", None) is not None:
        entry["shortened"] = "no output schema"
    return entry


def _without_texts(key: str, definition: Json) -> Json:
    entry = _without_output(key, definition)
    if "description" in entry:
        entry["description"] = cut(clean(entry["description"]), _SHORT_CHARS)
    entry["inputSchema"] = _bare(entry.get("inputSchema"), depth=0)
    entry["shortened"] = "no output schema, no descriptions of parameters"
    return entry


def _signature_only(key: str, definition: Json) -> Json:
    name = key.partition(":")[2]
    return {
        "toolKey": key,
        "signature": signature(name, json_object(definition.get("inputSchema"))),
        "shortened": "the schema is too long for the budget; this is its signature",
    }


_TEXTS = frozenset({"description", "title", "examples", "$comment", "markdownDescription"})


def _bare(schema: Any, *, depth: int) -> Any:
    """Remove the texts of a schema; names of properties stay, whatever they are."""
    # Limits the recursion: a hostile schema may nest endlessly. 60 levels are chosen.
    if depth > 60:
        return schema
    if isinstance(schema, list):
        return [_bare(item, depth=depth + 1) for item in json_array(schema)]  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(schema, dict):
        return schema
    out: Json = {}
    for key, value in json_object(schema).items():  # pyright: ignore[reportUnknownArgumentType]
        # The keys below these are names chosen by people, such as `title`, not keywords of JSON
        # Schema.
        if key in ("properties", "$defs", "definitions", "patternProperties"):
            out[key] = {
                name: _bare(inner, depth=depth + 1) for name, inner in json_object(value).items()
            }
        # Values are data: an object among them may have a member called `description`.
        elif key in ("enum", "const", "default"):
            out[key] = value
        elif key not in _TEXTS:
            out[key] = _bare(value, depth=depth + 1)
    return out
