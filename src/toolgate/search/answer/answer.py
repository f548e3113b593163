"""The answer of a discovery: the hits in as few tokens as possible, never over the budget.

It has two forms, each within the budget on its own: `Discovery.text` for models that read text,
`Discovery.structured()` for clients that take structured content.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from toolgate.base.token_estimate import estimate_tokens
from toolgate.search.answer.discovery import DetailLevel, Discovery, fit, notices_at
from toolgate.search.answer.results import DiscoveryResult, card_of, result_of
from toolgate.search.answer.safe_text import clean, cut
from toolgate.search.answer.signature import signature
from toolgate.search.base import SearchAnswer, SearchedQuery
from toolgate.types import Json, relevance_text

_SAFE_KEY = re.compile(r"[^\s()\"'`\x00-\x20\x7f-\xa0]+")
_NOTICES_MOST = 6
"""Most notices in an answer; chosen."""
_NOTICE_CHARS = 240
"""Most characters of a notice, not counting the queries that it is about; chosen."""
_STRONG = 0.5
"""Lowest relevance of a hit for which the other tools of its server are listed; chosen."""
_BESIDE = 3
"""Most alternatives, and most companions, listed for a hit; chosen."""
_BESIDE_CHARS = 80
"""Most characters of a companion's parameters; chosen."""


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
    """Return the answer to show for the result of a search.

    Args:
        answer: Hits and notices of the search.
        definitions: Returns the JSON definition of a tool key; after a `KeyError` the hit is
            left out, because its tool was removed in the meantime.
        siblings: Names of the tools that the caller may see, by server; listed for the servers
            of strong hits.
        budget_tokens: Most estimated tokens of the text, and of the JSON; 200 or more.
        down: Servers that are down; their tools come last and are marked.
        notices: Further sentences for the reader, before those of the search.
        meta_tools: The meta-tools that the caller has; only these are recommended.
        alternatives: Keys of near-duplicate tools that the caller may see, by key.
        used_with: Keys of tools that the caller may see and that were often used together with a
            hit, by the hit's key.
        as_text: Whether `text` is needed; without it, tokens are not counted.
    """
    for_programs = "tool_program" in meta_tools
    matches: list[DiscoveryResult] = []
    for hit in answer.hits:
        try:
            definition = definitions(hit.key)
        except KeyError:
            continue
        matches.append(result_of(hit, definition, down, for_programs=for_programs))
    # Pinned tools come after all tools that were found, which they could push out of the budget.
    # Sorting is stable: otherwise the order is that of the search.
    matches.sort(key=lambda match: (match.down, match.source == "core"))
    results = _with_company(matches, definitions, alternatives or {}, used_with or {})
    keys = {result.tool_key for result in results}
    keys |= {key for result in results for key, _ in result.used_with}
    servers = {result.server_name for result in results if _is_strong(result)}
    unlisted = {
        server: tuple(name for name in names if f"{server}:{name}" not in keys)
        for server, names in (siblings or {}).items()
        if server in servers
    }
    draft = Discovery(
        results=results,
        siblings=unlisted,
        notices=_notices((*notices, *answer.notices), answer.queries),
        fit=answer.fit,
        budget_tokens=budget_tokens,
        total_searched=answer.searched,
        duration_ms=round(answer.duration_ms, 2),
        query_embedded=bool(answer.model),
    )

    # Fitting renders the text several times; callers that use structured content skip that cost.
    if not as_text:
        return replace(draft, shown_keys=tuple(result.tool_key for result in results))

    def render(discovery: Discovery, level: DetailLevel) -> SizedText:
        return _as_text(discovery, level, meta_tools)

    written, n_shown = fit(draft, render, lambda text: text.tokens)
    return replace(
        draft,
        text=written.text,
        tokens=written.tokens,
        shown_keys=tuple(result.tool_key for result in results[:n_shown]),
    )


def _with_company(
    results: Sequence[DiscoveryResult],
    definitions: Callable[[str], bytes],
    alternatives: Mapping[str, Sequence[str]],
    used_with: Mapping[str, Sequence[str]],
) -> tuple[DiscoveryResult, ...]:
    """Add alternatives and companions; list each companion once, and none that is a result."""
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
                schema = card_of(definitions(key)).input_schema
            except KeyError:
                continue
            listed.add(key)
            company.append((key, clean(signature("", schema, max_chars=_BESIDE_CHARS))))
        same = tuple(alternatives.get(result.tool_key, ()))[:_BESIDE]
        full.append(result._replace(alternatives=same, used_with=tuple(company)))
    return tuple(full)


def _notices(notices: Sequence[str], queries: Sequence[SearchedQuery]) -> tuple[str, ...]:
    """Return the notices to show: the same sentence about several queries once, after them all."""
    labels_by_text: dict[str, list[str]] = {}
    for notice in notices:
        label = next((q.label for q in queries if notice.startswith(q.label)), "")
        text = cut(clean(notice.removeprefix(label)), _NOTICE_CHARS)
        labels = labels_by_text.setdefault(text, [])
        if (name := clean(label.removesuffix(": "))) not in labels:
            labels.append(name)
    labels_by_text.pop("", None)
    texts = [_about(labels, text) for text, labels in labels_by_text.items()]
    if left := len(texts[_NOTICES_MOST:]):
        texts[_NOTICES_MOST:] = [f"Notes left out: {left}."]
    return tuple(texts)


def _about(labels: Sequence[str], text: str) -> str:
    """Name the queries; many of them come last, where a small budget cuts them, not the text."""
    if len(labels) > 1:
        return f"{text} About: {', '.join(filter(None, labels))}."
    return f"{labels[0]}: {text}" if labels[0] else text


def _is_strong(result: DiscoveryResult) -> bool:
    return result.relevance >= _STRONG and not result.weak and not result.down


class SizedText(NamedTuple):
    """A text that states its own estimated size."""

    text: str
    tokens: int


def _as_text(discovery: Discovery, level: DetailLevel, meta_tools: Collection[str]) -> SizedText:
    results = discovery.results[: level.results]
    lines: list[str] = []
    # Position of each server's last hit: the server's other tools are listed once, after that hit.
    ends = {result.server_name: position for position, result in enumerate(results)}
    for position, result in enumerate(results):
        lines += _entry(result, level)
        if position == ends[result.server_name] and level.siblings:
            lines += _sibling_line(result.server_name, discovery.siblings, level.siblings)
    lines += [f"Note: {notice}" for notice in notices_at(discovery, level)]
    if not results and not lines:
        lines.append("Note: No tool was found.")
    return _sized("\n".join([*lines, *_how_to(results, meta_tools)]))


def _entry(result: DiscoveryResult, level: DetailLevel) -> list[str]:
    marks = ["pinned" if result.source == "core" else relevance_text(result.relevance)]
    marks += [result.kind] if result.kind != "tool" else []
    marks += ["weak"] if result.weak else []
    marks += ["read-only"] if result.annotations.get("readOnlyHint") is True else []
    marks += ["destructive"] if _is_destructive(result.annotations) else []
    marks += ["SERVER DOWN"] if result.down else []
    parameters = result.parameters(level.signature) if level.signature else ""
    lines = [f"{_key(result.tool_key)}{parameters} [{', '.join(marks)}]"]
    if level.output and result.returns:
        lines[0] += f" -> {result.returns}"
    description = cut(result.description, level.description)
    if level.explanation and result.hint:
        description = f"{description} ({result.hint})".strip()
    lines += [f"  {description}"] if description else []
    if level.siblings and result.alternatives:
        lines.append(f"  same as: {', '.join(map(_key, result.alternatives))}")
    if level.siblings and result.used_with:
        company = (_key(key) + parameters for key, parameters in result.used_with)
        lines.append(f"  often used with: {', '.join(company)}")
    return lines


def _is_destructive(annotations: Json) -> bool:
    # MCP: `destructiveHint` is meaningful only if `readOnlyHint` is not true.
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
    """Return a key as written in a call; quoted if it has special characters."""
    return key if _SAFE_KEY.fullmatch(key) and key == clean(key) else json.dumps(key)


def _how_to(results: Sequence[DiscoveryResult], meta_tools: Collection[str]) -> list[str]:
    if not results:
        return []
    ways: list[str] = []
    if "tool_execute" in meta_tools:
        reads = any(
            result.kind != "tool" or result.annotations.get("readOnlyHint") is True
            for result in results
        )
        read = ", or tool_read if read-only" if reads and "tool_read" in meta_tools else ""
        ways.append(f"Run: tool_execute{read}.")
    if "tool_describe" in meta_tools:
        ways.append("Full schemas: tool_describe.")
    return [" ".join(ways)] if ways else []


def _sized(text: str) -> SizedText:
    """Append the estimated size of a text to it."""
    raw = text.encode("utf-8", "replace")
    size = estimate_tokens(raw)
    # The line with the size counts too, and a longer number changes the sum: repeat until both
    # agree.
    while (whole := estimate_tokens(raw + b"\n~%d tokens" % size)) != size:
        size = whole
    return SizedText(f"{text}\n~{size} tokens", size)
