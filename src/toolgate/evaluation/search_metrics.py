"""Labelled search requests, and metrics of the rankings for them."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from toolgate.errors import SettingError
from toolgate.search import Fit, SearchableTool
from toolgate.types import json_object

METRICS = ("R@1", "R@5", "R@10", "C@10", "nDCG@10", "MRR", "any@5")
"""R@k: share of the needed tools among the first k. C@10: requests with all of them among the first
10. nDCG@10, MRR: over the first 10. any@5: requests with at least one among the first 5."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A request and the tools that it needs."""

    id: str
    """Id in the set."""

    text: str
    """Text of the request."""

    groups: tuple[frozenset[str], ...]
    """The needed tools; one of each group is enough. Empty if no tool can handle the request."""


@dataclass(frozen=True, kw_only=True)
class LabelledSet:
    """A catalog with labelled requests."""

    name: str
    """Name of the folder, joined with those of the distractors."""

    tools: tuple[SearchableTool, ...]
    """The catalog; the keys are the ids in the files."""

    questions: tuple[Question, ...]
    """The requests."""


def read_labelled(
    folder: Path, distractors: Sequence[Path] = (), *, split: str = "test", limit: int = 0
) -> LabelledSet:
    """Read a folder (`tools.jsonl`, `queries.jsonl`), with tools of other folders as distractors.

    A distractor is left out if a tool of the set has the same name, comparing only letters and
    digits.

    Args:
        folder: The set.
        distractors: Folders with further tools.
        split: Only requests of this split; those without one belong to `test`.
        limit: Maximum number of requests, evenly sampled; 0 for all.

    Raises:
        SettingError: A file is missing or has the wrong format.
    """
    tools = _tools(folder)
    taken = {_normalize(tool.name) for tool in tools}
    for other in distractors:
        tools += [tool for tool in _tools(other) if _normalize(tool.name) not in taken]
    catalog: dict[str, SearchableTool] = {}
    for tool in tools:
        catalog.setdefault(tool.key, tool)
    rows = [row for row in _rows(folder / "queries.jsonl") if row.get("split", "test") == split]
    if limit and len(rows) > limit:
        rows = [rows[index * len(rows) // limit] for index in range(limit)]
    return LabelledSet(
        name="+".join(path.resolve().name for path in (folder, *distractors)),
        tools=tuple(catalog.values()),
        questions=tuple(question_of(row, folder / "queries.jsonl") for row in rows),
    )


def score_ranking(ranked: Sequence[str], groups: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the metrics of a ranking, best first; `groups` has at least one group."""
    positions = {key: at for at, key in reversed(list(enumerate(ranked)))}
    ranks = [
        min((positions[key] for key in group if key in positions), default=None) for group in groups
    ]
    hits = sorted(rank for rank in ranks if rank is not None)
    size = len(groups)
    ideal = sum(1 / math.log2(at + 2) for at in range(min(size, 10)))
    gained = sum(1 / math.log2(rank + 2) for rank in dict.fromkeys(hits) if rank < 10)
    shares = {f"R@{k}": sum(rank < k for rank in hits) / size for k in (1, 5, 10)}
    return {
        **shares,
        "C@10": float(len(hits) == size and all(rank < 10 for rank in hits)),
        "nDCG@10": gained / ideal,
        "MRR": 1 / (hits[0] + 1) if hits and hits[0] < 10 else 0.0,
        "any@5": float(bool(hits) and hits[0] < 5),
    }


def score_notices(fits: Sequence[Fit], questions: Sequence[Question]) -> dict[str, float | None]:
    """Measure how often a search says that nothing fits, by whether a tool serves the request.

    `none_served` is the share of false alarms, `none_unserved` that of requests without a tool
    that get the notice; None if there are no such requests.
    """

    def share(*, is_served: bool) -> float | None:
        said = [
            fit == "none"
            for fit, question in zip(fits, questions, strict=True)
            if bool(question.groups) == is_served
        ]
        return round(fmean(said), 4) if said else None

    return {"none_served": share(is_served=True), "none_unserved": share(is_served=False)}


def precision_by_rank(
    ranked: Sequence[Sequence[str]], questions: Sequence[Question]
) -> list[float]:
    """Return the share of requests with a needed tool at each of the first ten ranks."""
    needed = [frozenset[str]().union(*question.groups) for question in questions]
    return [
        round(fmean(rank < len(keys) and keys[rank] in fits for keys, fits in pairs), 4)
        for pairs in [list(zip(ranked, needed, strict=True))]
        for rank in range(10)
    ]


def mean_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over all requests."""
    return {name: fmean(row[name] for row in rows) for name in METRICS} if rows else {}


def _tools(folder: Path) -> list[SearchableTool]:
    path = folder / "tools.jsonl"
    tools = [tool_of(row, path) for row in _rows(path)]
    times = Counter(tool.key for tool in tools)
    if twice := next((key for key in times if times[key] > 1), None):
        raise SettingError(
            f"{path} has the id {twice!r:.80} {times[twice]} times.",
            hint="Give each tool its own id; see docs/search.md for the format.",
        )
    return tools


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    at = 0
    try:
        for at, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
            if line.strip():
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise _wrong_format(row, path, f"an object (line {at})")
                rows.append(cast("dict[str, Any]", row))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"line {at}: {error}"
        raise SettingError(
            f"{path} cannot be read: {reason}.",
            hint="Give a folder with tools.jsonl and queries.jsonl; see docs/search.md.",
        ) from error
    return rows


def tool_of(row: Mapping[str, Any], where: object) -> SearchableTool:
    """Parse a line of `tools.jsonl`, found in `where`.

    Raises:
        SettingError: The format is wrong.
    """
    try:
        properties = json_object(json_object(row.get("input_schema")).get("properties"))
        return SearchableTool(
            key=str(row["id"]),
            server=str(row.get("server") or ""),
            name=str(row["name"]),
            title=str(row.get("title") or ""),
            description=str(row.get("description") or ""),
            parameters=tuple(
                (name, str(json_object(schema).get("description") or ""))
                for name, schema in properties.items()
            ),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _wrong_format(row, where, "id and name") from error


def question_of(row: Mapping[str, Any], where: object) -> Question:
    """Parse a line of `queries.jsonl`, found in `where`.

    Raises:
        SettingError: The format is wrong.
    """
    try:
        relevant = [] if row["relevant"] == [] else _ids(row["relevant"])
        groups = [_ids(group) for group in row.get("groups") or ()] or [[key] for key in relevant]
        return Question(
            id=str(row["id"]), text=str(row["text"]), groups=tuple(map(frozenset, groups))
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _wrong_format(row, where, "id, text and relevant") from error


def _ids(value: object) -> list[str]:
    """Return a non-empty list of tool ids.

    Raises:
        TypeError: It is something else.
    """
    ids = cast("list[object]", value) if isinstance(value, list) else []
    if not ids or not all(isinstance(item, str) for item in ids):
        raise TypeError
    return cast("list[str]", ids)


def _wrong_format(row: object, where: object, needed: str) -> SettingError:
    return SettingError(
        f"{where} has a line without {needed}: {str(row)[:80]!r}.",
        hint="See docs/search.md for the format.",
    )


def _normalize(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
