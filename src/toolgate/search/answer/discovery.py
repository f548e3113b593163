"""The answer of a discovery as data and as JSON, reduced step by step to a token budget."""

import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from toolgate.base.token_estimate import estimate_tokens
from toolgate.search.answer.results import SIGNATURE_CHARS, DiscoveryResult
from toolgate.search.answer.safe_text import clean, cut
from toolgate.search.relevance.calibration import Fit
from toolgate.types import Json

FormT = TypeVar("FormT")


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """The answer of a discovery."""

    results: tuple[DiscoveryResult, ...]
    """Best first, including results that the budget leaves out of the text."""

    siblings: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Names of the other tools of each server in `results`."""

    fit: Fit = "good"
    """How well the best result fits."""

    notices: tuple[str, ...] = ()
    """Sentences about what was withheld, fell back, is down or does not fit."""

    text: str = ""
    """The answer for a model, within the budget."""

    tokens: int = 0
    """Estimated tokens of `text`."""

    shown_keys: tuple[str, ...] = ()
    """Keys of the tools in `text`, in the same order."""

    budget_tokens: int = 1000
    """Most estimated tokens of either form."""

    total_searched: int = 0
    """Number of tools that were searched."""

    duration_ms: float = 0.0
    """Duration of the search in milliseconds."""

    query_embedded: bool = False
    """Whether the request was embedded, so that its meaning counted and not only its words."""

    def structured(self, *, explain: bool = False, brief: bool = False) -> Json:
        """Return the answer as JSON, within the budget.

        `results[]` (`toolKey toolName serverName kind relevance source description? explanation?
        signature? annotations? outputSchema? down? alternatives? usedWith?`), `siblings?` (names
        by server), `fit` (`good`, `unsure` or `none`), `notice?`, `total_searched`,
        `duration_ms`, `query_embedded`, `estimatedTokens`.

        Args:
            explain: Whether to add `reasons` to each result; they are for people and programs,
                and do not count as tokens.
            brief: Whether to return only what a model needs to choose and call a tool: of the
                results `toolKey`, `kind` (if it is no tool), `signature`, `returns?` (the
                output schema in short), `description?`, `relevance`, `weak?`, `down?`,
                `annotations?`, `alternatives?` and `usedWith?`, and `siblings?`, `fit` and
                `notice?`.
        """
        form, measure = (_as_brief_json, _json_tokens) if brief else (_as_json, _stated_tokens)
        body = fit(self, form, measure)[0]
        if explain:
            for result, entry in zip(self.results, body["results"], strict=False):
                entry["reasons"] = result.reasons
        return body


@dataclass(frozen=True, kw_only=True)
class DetailLevel:
    """How much of each part of an answer is shown."""

    results: int
    """Most results."""
    description: int = 200
    """Most characters of a description."""
    output: bool = True
    """Whether the fields of a tool's output are listed."""
    siblings: int = 12
    """Most names per server."""
    explanation: bool = True
    """Whether the reason for each hit is shown."""
    signature: int = SIGNATURE_CHARS
    """Most characters of the parameters; 0 leaves them out."""
    notices: int = 2_000
    """Most characters of a notice."""


def _levels(full: DetailLevel) -> list[DetailLevel]:
    """Return the levels of detail to try, each no larger than the previous one.

    Output shapes go first, then siblings, descriptions, explanations and parameters, and at last
    results from the end.
    """
    results = full.results
    plain = replace(full, output=False)
    alone = replace(plain, siblings=0)
    brief = replace(alone, description=50)
    bare = replace(brief, explanation=False)
    least = replace(bare, description=0, signature=80)
    none = replace(least, results=min(1, results), signature=0)
    return [
        *(replace(plain, siblings=names) for names in (12, 6)),
        *(replace(alone, description=chars) for chars in (200, 150, 90, 50)),
        bare,
        *(replace(bare, signature=chars) for chars in (160, 80)),
        *(replace(least, results=fewer) for fewer in range(results, 0, -1)),
        *(replace(none, notices=chars) for chars in (240, 80, 0)),
    ]


def fit(
    discovery: Discovery,
    render: Callable[[Discovery, DetailLevel], FormT],
    measure: Callable[[FormT], int],
) -> tuple[FormT, int]:
    """Return the most detailed form within the budget, and its number of results."""
    budget = discovery.budget_tokens
    full = DetailLevel(results=len(discovery.results))
    form = render(discovery, full)
    if measure(form) <= budget:
        return form, full.results
    levels = _levels(full)
    # Each level is no larger than the previous one, so bisection finds the first that fits with a
    # few renderings.
    at = bisect_left(levels, True, key=lambda level: measure(render(discovery, level)) <= budget)
    level = levels[min(at, len(levels) - 1)]
    form = render(discovery, level)
    if measure(form) <= budget:
        return form, level.results
    # Not even one name fits: a server may send names of any length.
    sorry = "The best hit has a name that does not fit into the token budget of this answer."
    return render(replace(discovery, results=(), notices=(sorry,)), DetailLevel(results=0)), 0


def notices_at(discovery: Discovery, level: DetailLevel) -> list[str]:
    """Return the notices at a level, including one about the results it leaves out."""
    notices = [text for notice in discovery.notices if (text := cut(notice, level.notices))]
    left = len(discovery.results) - level.results
    if left > 0:
        more = f"{left} more found, left out to stay within {discovery.budget_tokens} tokens."
        notices.insert(0, more)
    return notices


def _content(discovery: Discovery, level: DetailLevel) -> Json:
    """Return what both forms have."""
    results = discovery.results[: level.results]
    body: Json = {"results": [_result(result, level) for result in results]}
    if level.siblings and results:
        servers = dict.fromkeys(result.server_name for result in results)
        siblings = {
            name: list(discovery.siblings.get(name, ())[: level.siblings]) for name in servers
        }
        if siblings := {server: names for server, names in siblings.items() if names}:
            body["siblings"] = siblings
    body["fit"] = discovery.fit
    if notices := notices_at(discovery, level):
        body["notice"] = " ".join(notices)
    return body


def _as_json(discovery: Discovery, level: DetailLevel) -> Json:
    body = _content(discovery, level)
    body["total_searched"] = discovery.total_searched
    body["duration_ms"] = discovery.duration_ms
    body["query_embedded"] = discovery.query_embedded
    body["estimatedTokens"] = 0
    # Writing the number may lengthen the JSON, so count again until it is stable. `>` and not `!=`:
    # the estimate must not alternate between two sizes forever.
    while (size := _json_tokens(body)) > body["estimatedTokens"]:
        body["estimatedTokens"] = size
    return body


def _stated_tokens(body: Json) -> int:
    """Return the size that `_as_json` wrote into its own body."""
    return body["estimatedTokens"]


_BRIEF_RESULT = (
    "toolKey",
    "kind",
    "signature",
    "description",
    "relevance",
    "weak",
    "down",
    "alternatives",
    "usedWith",
)
_TELLING_HINTS = ("readOnlyHint", "destructiveHint")


def _as_brief_json(discovery: Discovery, level: DetailLevel) -> Json:
    body = _content(discovery, level)
    pairs = zip(body["results"], discovery.results, strict=False)
    return {**body, "results": [_brief_result(result, match, level) for result, match in pairs]}


def _brief_result(result: Json, match: DiscoveryResult, level: DetailLevel) -> Json:
    brief = {name: result[name] for name in _BRIEF_RESULT if name in result}
    if brief["kind"] == "tool":
        del brief["kind"]  # what nearly all are goes without saying
    if level.output and match.returns:
        brief["returns"] = match.returns
    # The other hints do not help to choose a tool, and each costs tokens.
    hints = result.get("annotations", {})
    telling = {name: True for name in _TELLING_HINTS if hints.get(name) is True}
    return {**brief, "annotations": telling} if telling else brief


def _result(match: DiscoveryResult, level: DetailLevel) -> Json:
    result: Json = {
        "toolKey": match.tool_key,
        "toolName": match.tool_name,
        "serverName": match.server_name,
        "kind": match.kind,
        "relevance": round(match.relevance, 2),
        "source": match.source,
    }
    if match.weak:
        result["weak"] = True
    if description := cut(match.description, level.description):
        result["description"] = description
    if level.explanation and match.explanation:
        result["explanation"] = match.explanation
    if level.signature:
        result["signature"] = match.shown_name + match.parameters(level.signature)
    if match.annotations:
        result["annotations"] = match.annotations
    if level.output and match.output_schema is not None:
        result["outputSchema"] = match.output_schema
    if match.down:
        result["down"] = True
    if level.siblings and match.alternatives:
        result["alternatives"] = list(match.alternatives)
    if level.siblings and match.used_with:
        result["usedWith"] = [
            {"toolKey": key, "signature": clean(key.partition(":")[2]) + parameters}
            for key, parameters in match.used_with
        ]
    return result


def _json_tokens(body: Json) -> int:
    try:
        return estimate_tokens(json.dumps(body, ensure_ascii=False))
    except (RecursionError, ValueError):
        return sys.maxsize  # an output schema that cannot be written down is left out
