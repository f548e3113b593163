"""The answer of a discovery: what was found, in as few tokens as it takes, never over the budget.

Two forms of the same answer, each within the budget on its own: `Discovery.text` for models that
read text, `Discovery.structured()` for clients that take structured content.
"""

import json
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.search.answer.safe_text import clean, cut, summary
from toolgate.search.answer.signature import shape, signature
from toolgate.search.base import Hit, SearchAnswer
from toolgate.types import Json, json_object

__all__ = ["Discovery", "DiscoveryResult", "compose"]

FormT = TypeVar("FormT", "_SizedText", Json)

_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_SAFE_KEY = re.compile(r"[^\s()\"'`\x00-\x20\x7f-\xa0]+")
_NOTICES_MOST = 6
_SIGNATURE_CHARS = 320
_REMEMBERED = 1_024
"""Definitions whose cards are remembered, ..."""
_REMEMBERED_BYTES = 16_384
"""... as long as they are no larger than this."""
_BESIDE = 3
"""Alternatives and companions of one hit that are named."""
_BESIDE_CHARS = 80
_SAYS_NOTHING = frozenset({"any", "object", "{result}", "{content}"})
"""Output shapes that server libraries put around every text."""


class DiscoveryResult(NamedTuple):
    """A tool in a discovery answer, as it may be shown; each answer makes several."""

    tool_key: str
    """`server:tool`, exactly as `tool_execute` takes it."""

    tool_name: str
    """Its name on its server, as it is."""

    server_name: str
    """Its server."""

    description: str
    """In one line, without lists of parameters; whole up to 2,000 characters."""

    relevance: float
    """How likely it helps, in [0, 1]; higher is better."""

    explanation: str
    """Why it was found, one short sentence."""

    source: str
    """What found it: `exact`, `lexical`, `vector`, `usage`, `core` (pinned) and so on."""

    reasons: Json
    """Why it was found, for programs: matched words by field, cosine, prior, usage, score."""

    annotations: Json
    """The hints that its server gives: `readOnlyHint`, `destructiveHint` and so on."""

    output_schema: Json | None = None
    """Its output schema as it is; None when it has none."""

    returns: str = ""
    """The same in short, `{id: int, title}`; empty when that says nothing."""

    signature: str = ""
    """Its call in one line, `create_issue(owner, repo, title, body?)`."""

    input_schema: object = None
    """Its input schema as it is."""

    weak: bool = False
    """Whether it is listed although nothing fits the request well."""

    down: bool = False
    """Whether its server is down, so that a call would fail."""

    alternatives: tuple[str, ...] = ()
    """Keys of tools of other servers that do nearly the same."""

    used_with: tuple[tuple[str, str], ...] = ()
    """Tools that were often used together with it: key and parameters."""

    def parameters(self, max_chars: int) -> str:
        """Its parameters in one line, `(owner, repo, title, body?)`, shortened where needed."""
        if max_chars >= _SIGNATURE_CHARS:
            return self.signature[len(clean(self.tool_name)) :]
        return clean(signature("", self.input_schema, max_chars=max_chars))


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """The answer of a discovery."""

    results: tuple[DiscoveryResult, ...]
    """Best first, those included that the budget leaves out of the text."""

    siblings: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Names of the other tools of each server in `results`."""

    notices: tuple[str, ...] = ()
    """What was withheld, fell back, is down or does not fit; sentences."""

    text: str = ""
    """The answer for a model, within the budget."""

    tokens: int = 0
    """Estimated tokens of `text`."""

    shown_keys: tuple[str, ...] = ()
    """Keys of the tools in `text`, in its order."""

    budget_tokens: int = 1000
    """Most estimated tokens of either form."""

    total_searched: int = 0
    """Tools among which was searched."""

    duration_ms: float = 0.0
    """Milliseconds of searching."""

    query_embedded: bool = False
    """Whether the meaning of the request counted, and not its words alone."""

    def structured(self, *, explain: bool = False) -> Json:
        """The answer as JSON, within the budget.

        `results[]` (`toolKey toolName serverName relevance source description? explanation?
        signature? annotations? outputSchema? down? alternatives? usedWith?`), `siblings?` (names by
        server), `notice?`, `total_searched`, `duration_ms`, `query_embedded`, `estimatedTokens`.

        Args:
            explain: Give each result its `reasons` too; they are for people and programs, and do
                not count as tokens.
        """
        body = _fit(self, _as_json, _json_tokens)[0]
        if explain:
            for result, entry in zip(self.results, body["results"], strict=False):
                entry["reasons"] = result.reasons
        return body


def compose(
    answer: SearchAnswer,
    definitions: Callable[[str], bytes],
    *,
    siblings: Mapping[str, Sequence[str]] | None = None,
    budget_tokens: int = 1000,
    down: Collection[str] = (),
    notices: Sequence[str] = (),
    meta_tools: Collection[str] = ("tool_execute", "tool_describe"),
    alternatives: Mapping[str, Sequence[str]] | None = None,
    used_with: Mapping[str, Sequence[str]] | None = None,
    as_text: bool = True,
) -> Discovery:
    """The answer to show for what a search found.

    Args:
        answer: Hits and notices of the search.
        definitions: A tool's definition as JSON, by key; a `KeyError` leaves the hit out, its tool
            went away meanwhile.
        siblings: Names of the tools that the caller may see, by server.
        budget_tokens: Most estimated tokens of the text, and of the JSON; 200 or more.
        down: Servers that are down; their tools come last and are marked.
        notices: Further sentences for the reader, before those of the search.
        meta_tools: Which meta-tools the caller has; only these are recommended.
        alternatives: Keys of near-equal tools that the caller may see, by key.
        used_with: Keys of tools that the caller may see and that were often used together with a
            hit, by its key.
        as_text: Whether `text` is wanted; without it there are no tokens.
    """
    matches: list[DiscoveryResult] = []
    for hit in answer.hits:
        try:
            definition = definitions(hit.key)
        except KeyError:
            continue
        matches.append(_result_of(hit, definition, down))
    results = _with_company(_grouped(matches), definitions, alternatives or {}, used_with or {})
    keys = {result.tool_key for result in results}
    servers = {result.server_name for result in results}
    unlisted = {
        server: tuple(name for name in names if f"{server}:{name}" not in keys)
        for server, names in (siblings or {}).items()
        if server in servers
    }
    texts = (cut(clean(notice), 240) for notice in (*notices, *answer.notices))
    draft = Discovery(
        results=results,
        siblings=unlisted,
        notices=tuple(dict.fromkeys(notice for notice in texts if notice))[:_NOTICES_MOST],
        budget_tokens=budget_tokens,
        total_searched=answer.searched,
        duration_ms=round(answer.duration_ms, 2),
        query_embedded=bool(answer.model),
    )

    if not as_text:
        return replace(draft, shown_keys=tuple(result.tool_key for result in results))

    def render(discovery: Discovery, level: _DetailLevel) -> _SizedText:
        return _as_text(discovery, level, meta_tools)

    written, n_shown = _fit(draft, render, lambda text: text.tokens)
    return replace(
        draft,
        text=written.text,
        tokens=written.tokens,
        shown_keys=tuple(result.tool_key for result in results[:n_shown]),
    )


def _result_of(hit: Hit, definition: bytes, down: Collection[str]) -> DiscoveryResult:
    server, _, name = hit.key.partition(":")
    card = _card_of(definition)
    return DiscoveryResult(
        tool_key=hit.key,
        tool_name=name,
        server_name=server,
        description=card.description,
        relevance=hit.relevance,
        explanation=cut(clean(hit.explanation), 160),
        source=hit.source,
        reasons=hit.fields,
        annotations=card.annotations,
        output_schema=card.output_schema,
        returns=card.returns,
        signature=clean(name) + card.parameters,
        input_schema=card.input_schema,
        weak=bool(hit.fields.get("weak")),
        down=server in down,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Card:
    """What answers show of a definition, the same for every request."""

    description: str
    annotations: Json
    input_schema: object
    parameters: str
    output_schema: Json | None
    returns: str


def _card_of(definition: bytes) -> _Card:
    few = len(definition) <= _REMEMBERED_BYTES
    return _card(definition) if few else _card.__wrapped__(definition)


@lru_cache(maxsize=_REMEMBERED)
def _card(definition: bytes) -> _Card:
    """Remembered: the same tools are found again and again."""
    read = json_object(json_text.loads(definition))
    hints = json_object(read.get("annotations"))
    schema, output = read.get("inputSchema"), read.get("outputSchema")
    texts = (read.get("description"), read.get("title"), hints.get("title"))
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    output = cast("Json", output) if isinstance(output, dict) else None
    returns = clean(shape(output)) if output else ""
    return _Card(
        description=cut(summary(text), 2_000),
        annotations={
            key: cut(clean(value), 80) if isinstance(value, str) else value
            for key in _HINTS
            if isinstance(value := hints.get(key), str if key == "title" else bool)
        },
        input_schema=schema,
        parameters=clean(signature("", schema, max_chars=_SIGNATURE_CHARS)),
        output_schema=output,
        returns="" if returns in _SAYS_NOTHING else returns,
    )


def _with_company(
    results: Sequence[DiscoveryResult],
    definitions: Callable[[str], bytes],
    alternatives: Mapping[str, Sequence[str]],
    used_with: Mapping[str, Sequence[str]],
) -> tuple[DiscoveryResult, ...]:
    """The results with what belongs to them; each companion once, and none that is a result."""
    if not alternatives and not used_with:
        return tuple(results)
    listed = {result.tool_key for result in results}
    full: list[DiscoveryResult] = []
    for result in results:
        company: list[tuple[str, str]] = []
        for key in used_with.get(result.tool_key, ()):
            if key in listed or len(company) == _BESIDE:
                continue
            try:
                schema = _card_of(definitions(key)).input_schema
            except KeyError:
                continue
            listed.add(key)
            company.append((key, clean(signature("", schema, max_chars=_BESIDE_CHARS))))
        same = tuple(alternatives.get(result.tool_key, ()))[:_BESIDE]
        full.append(result._replace(alternatives=same, used_with=tuple(company)))
    return tuple(full)


def _grouped(results: Sequence[DiscoveryResult]) -> tuple[DiscoveryResult, ...]:
    """By server, in the order of the servers' best hits; pinned ones and those that are down last.

    What is pinned stands behind all that was found, or it would push that out of the budget.
    """
    groups: dict[tuple[bool, bool, str], list[DiscoveryResult]] = {}
    for result in results:
        groups.setdefault((result.down, result.source == "core", result.server_name), []).append(
            result
        )
    ordered = sorted(groups.items(), key=lambda group: group[0][:2])
    return tuple(result for _, group in ordered for result in group)


@dataclass(frozen=True, kw_only=True)
class _DetailLevel:
    """How much of everything is shown."""

    results: int
    description: int = 400
    """Characters."""
    output: bool = True
    siblings: int = 12
    """Names a server."""
    explanation: bool = True
    signature: int = _SIGNATURE_CHARS
    """Characters of the parameters; 0 leaves them out."""
    notices: int = 240
    """Characters of a notice."""


def _levels(full: _DetailLevel) -> list[_DetailLevel]:
    """What follows when all is too much, each step no larger than the one before.

    Output shapes go first, then siblings, descriptions, explanations, parameters, at last the
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
        *(replace(alone, description=chars) for chars in (400, 250, 150, 90, 50)),
        bare,
        *(replace(bare, signature=chars) for chars in (160, 80)),
        *(replace(least, results=fewer) for fewer in range(results, 0, -1)),
        *(replace(none, notices=chars) for chars in (240, 80, 0)),
    ]


def _fit(
    discovery: Discovery,
    render: Callable[[Discovery, _DetailLevel], FormT],
    measure: Callable[[FormT], int],
) -> tuple[FormT, int]:
    """The richest form within the budget, and how many results it has."""
    budget = discovery.budget_tokens
    full = _DetailLevel(results=len(discovery.results))
    form = render(discovery, full)
    if measure(form) <= budget:
        return form, full.results
    levels = _levels(full)
    at = bisect_left(levels, True, key=lambda level: measure(render(discovery, level)) <= budget)
    level = levels[min(at, len(levels) - 1)]
    form = render(discovery, level)
    if measure(form) <= budget:
        return form, level.results
    # Not even one name fits: a server may send names of any length.
    sorry = "The best hit has a name that does not fit into the token budget of this answer."
    return render(replace(discovery, results=(), notices=(sorry,)), _DetailLevel(results=0)), 0


def _left_out(discovery: Discovery, level: _DetailLevel) -> list[str]:
    """The notices at a level, with one for the results that it leaves out."""
    notices = [text for notice in discovery.notices if (text := cut(notice, level.notices))]
    left = len(discovery.results) - level.results
    if left > 0:
        more = f"{left} more found, left out to stay within {discovery.budget_tokens} tokens."
        notices.insert(0, more)
    return notices


# ------------------------------------------------------------------ text


class _SizedText(NamedTuple):
    """A text that says its own estimated size."""

    text: str
    tokens: int


def _as_text(discovery: Discovery, level: _DetailLevel, meta_tools: Collection[str]) -> _SizedText:
    results = discovery.results[: level.results]
    lines: list[str] = []
    ends = {result.server_name: position for position, result in enumerate(results)}
    for position, result in enumerate(results):
        lines += _entry(result, level)
        if position == ends[result.server_name] and level.siblings:
            lines += _sibling_line(result.server_name, discovery.siblings, level.siblings)
    lines += [f"Note: {notice}" for notice in _left_out(discovery, level)]
    if not results and not lines:
        lines.append("Note: No tool was found.")
    return _sized("\n".join([*lines, *_how_to(results, meta_tools)]))


def _entry(result: DiscoveryResult, level: _DetailLevel) -> list[str]:
    marks = ["pinned" if result.source == "core" else f"{result.relevance:.2f}"]
    marks += ["weak"] if result.weak else []
    marks += ["read-only"] if result.annotations.get("readOnlyHint") is True else []
    marks += ["destructive"] if _is_destructive(result.annotations) else []
    marks += ["SERVER DOWN"] if result.down else []
    parameters = result.parameters(level.signature) if level.signature else ""
    lines = [f"{_key(result.tool_key)}{parameters} [{', '.join(marks)}]"]
    if level.output and result.returns:
        lines[0] += f" -> {result.returns}"
    description = cut(result.description, level.description)
    if level.explanation and result.explanation:
        description = f"{description} ({result.explanation})".strip()
    lines += [f"  {description}"] if description else []
    if level.siblings and result.alternatives:
        lines.append(f"  same as: {', '.join(map(_key, result.alternatives))}")
    if level.siblings and result.used_with:
        company = (_key(key) + parameters for key, parameters in result.used_with)
        lines.append(f"  often used with: {', '.join(company)}")
    return lines


def _is_destructive(annotations: Json) -> bool:
    return (
        annotations.get("destructiveHint") is True and annotations.get("readOnlyHint") is not True
    )


def _sibling_line(server: str, siblings: Mapping[str, Sequence[str]], limit: int) -> list[str]:
    names = [cut(clean(name), 48) for name in siblings.get(server, ())[:limit]]
    if not names:
        return []
    left = len(siblings[server]) - len(names)
    return [f"  also on {server}: {', '.join(names)}{f' and {left} more' if left else ''}"]


@lru_cache(maxsize=4_096)
def _key(key: str) -> str:
    """A key as it is written in a call; quoted where it has more than plain characters."""
    return key if _SAFE_KEY.fullmatch(key) and key == clean(key) else json.dumps(key)


def _how_to(results: Sequence[DiscoveryResult], meta_tools: Collection[str]) -> list[str]:
    if not results:
        return []
    ways: list[str] = []
    if "tool_execute" in meta_tools:
        ways.append('Run: tool_execute {"toolKey": "server:tool", "arguments": {…}}.')
    if "tool_describe" in meta_tools:
        ways.append('Full schemas: tool_describe {"toolKeys": […]}.')
    return [" ".join(ways)] if ways else []


def _sized(text: str) -> _SizedText:
    """The text with its own estimated size at the end."""
    raw = text.encode("utf-8", "replace")
    size = estimate_tokens(raw)
    while (whole := estimate_tokens(raw + b"\n~%d tokens" % size)) != size:
        size = whole
    return _SizedText(f"{text}\n~{size} tokens", size)


# ------------------------------------------------------------------ JSON


def _as_json(discovery: Discovery, level: _DetailLevel) -> Json:
    results = discovery.results[: level.results]
    body: Json = {"results": [_result(result, level) for result in results]}
    if level.siblings and results:
        servers = dict.fromkeys(result.server_name for result in results)
        siblings = {
            name: list(discovery.siblings.get(name, ())[: level.siblings]) for name in servers
        }
        body["siblings"] = {server: names for server, names in siblings.items() if names}
    if notices := _left_out(discovery, level):
        body["notice"] = " ".join(notices)
    body["total_searched"] = discovery.total_searched
    body["duration_ms"] = discovery.duration_ms
    body["query_embedded"] = discovery.query_embedded
    body["estimatedTokens"] = 0
    while (size := _json_tokens(body)) > body["estimatedTokens"]:
        body["estimatedTokens"] = size
    return body


def _result(match: DiscoveryResult, level: _DetailLevel) -> Json:
    result: Json = {
        "toolKey": match.tool_key,
        "toolName": match.tool_name,
        "serverName": match.server_name,
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
        result["signature"] = clean(match.tool_name) + match.parameters(level.signature)
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
