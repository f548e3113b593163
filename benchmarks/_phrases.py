"""The labelled phrases of `benchmarks/data` as sets of requests."""

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from benchmarks._data import (
    DATA,
    OWN_NAMES,
    PHRASES,
    REAL_TOOLS,
    SERVED_OR_NOT,
    TRANSLATED_PHRASES,
    read_rows,
)
from toolgate.evaluation.search_metrics import LabelledSet, Question, read_labelled, tool_of
from toolgate.search import SearchableTool

SELECTIONS: Final = (4, 8, 11, 11, 20)
"""Servers of catalogs in which some phrases have no tool."""
_SAME_PURPOSE: Final = re.compile(
    r"k8s|kube|helm|docker|container|redis|mongo|sql|postgres|database|neo4j|memory|knowledge"
    r"|git|repo|codebase|file|desktop|commander|shell|terminal|drive|slack|discord|telegram"
    r"|whatsapp|waha",
    re.IGNORECASE,
)
"""Servers that do the same as one of the ten; their tools would count as wrong."""


def phrase_sets(split: str) -> list[LabelledSet]:
    """Short phrases over the tools of 37 servers, and of the 44 of mcpverse."""
    return _phrase_sets([row for row in read_rows(PHRASES) if row["split"] == split])


def translated_phrase_sets(split: str, language: str) -> list[LabelledSet]:
    """The English phrases as people of another language say them."""
    english = {row["id"]: row for row in read_rows(PHRASES) if row["split"] == split}
    rows = [row for row in read_rows(TRANSLATED_PHRASES) if row["language"] == language]
    return _phrase_sets([english[row["id"]] | row for row in rows if row["id"] in english])


def _phrase_sets(rows: Sequence[Mapping[str, Any]]) -> list[LabelledSet]:
    real, mcpverse = real_tools(), read_labelled(DATA / "mcpverse").tools
    return [
        LabelledSet(
            name=f"phrases, {name}",
            tools=tuple(tools),
            questions=tuple(
                _phrase(row, field, {tool.key for tool in tools}) for row in rows if field in row
            ),
        )
        for name, field, tools in (
            ("37 servers", "relevant", real),
            ("mcpverse", "relevant_mcpverse", mcpverse),
        )
    ]


def phrases_of_some_servers(split: str) -> list[LabelledSet]:
    """The same over the tools of a few servers at a time, always the same ones."""
    rows = [row for row in read_rows(PHRASES) if row["split"] == split]
    rng = random.Random(7)
    tools = real_tools()
    servers = sorted({tool.server for tool in tools})
    sets: list[LabelledSet] = []
    for count in SELECTIONS:
        some = set(rng.sample(servers, count))
        catalog = tuple(tool for tool in tools if tool.server in some)
        keys = {tool.key for tool in catalog}
        questions = tuple(_phrase(row, "relevant", keys) for row in rows)
        name = f"phrases, {count} of 37 servers"
        sets.append(LabelledSet(name=name, tools=catalog, questions=questions))
    return sets


def phrases_of_single_servers(split: str) -> dict[str, list[LabelledSet]]:
    """The phrases that a server with few tools serves, and others, by the size of the catalog."""
    rows = [row for row in read_rows(PHRASES) if row["split"] == split]
    not_served = [row for row in rows if not row["relevant"]]
    by_server: dict[str, list[SearchableTool]] = defaultdict(list)
    for tool in real_tools():
        by_server[tool.server].append(tool)
    sets: dict[str, list[LabelledSet]] = {f"phrases, up to {size} tools": [] for size in _SIZES}
    for at, (server, tools) in enumerate(sorted(by_server.items())):
        size = next((size for size in _SIZES if len(tools) <= size), None)
        if size is None:
            continue
        keys = {tool.key for tool in tools}
        served = [row for row in rows if not keys.isdisjoint(row["relevant"])]
        # Every server gets other ones, so that all of them are asked.
        asked = [*served, *not_served[at % _NOT_SERVED :: _NOT_SERVED]]
        questions = tuple(_phrase(row, "relevant", keys) for row in asked)
        labelled = LabelledSet(name=server, tools=tuple(tools), questions=questions)
        sets[f"phrases, up to {size} tools"].append(labelled)
    return sets


_SIZES: Final = (5, 12, 29)
"""Largest number of tools of catalogs of about the same size."""
_NOT_SERVED: Final = 10
"""Of how many phrases that no tool serves each of the servers is asked one."""


def served_or_not(split: str) -> LabelledSet:
    """Everyday requests over the tools of 37 servers, half of which no tool serves."""
    tools = real_tools()
    keys = {tool.key for tool in tools}
    rows = [row for row in read_rows(SERVED_OR_NOT) if row["split"] == split]
    return LabelledSet(
        name="served or not",
        tools=tuple(tools),
        questions=tuple(_phrase(row, "relevant", keys) for row in rows),
    )


def requests_with_own_names(distractors: Sequence[SearchableTool] = ()) -> LabelledSet:
    """Requests with users' own names, paths and IDs, over the tools of ten servers.

    Distractors from servers that offer the same tools are left out.
    """
    rows = read_rows(OWN_NAMES)
    servers = {key.partition(":")[0] for row in rows for key in row["relevant"]}
    tools = [tool for tool in real_tools() if tool.server in servers]
    keys = {tool.key for tool in tools}
    others = [tool for tool in distractors if not _SAME_PURPOSE.search(tool.server)]
    catalog = {tool.key: tool for tool in (*others, *tools)}
    return LabelledSet(
        name="own names" + ("+distractors" if others else ""),
        tools=tuple(catalog.values()),
        questions=tuple(_phrase(row, "relevant", keys) for row in rows),
    )


def shortened(labelled: LabelledSet, requests: int) -> LabelledSet:
    """The first requests, with the tools that they need: for quick forms, not for figures."""
    questions = labelled.questions[:requests]
    needed = {key for question in questions for group in question.groups for key in group}
    tools = tuple(tool for tool in labelled.tools if tool.key in needed)
    return replace(labelled, tools=tools, questions=questions)


def real_tools() -> list[SearchableTool]:
    """The 642 tools of 37 servers."""
    return [
        tool_of(
            {
                **row,
                "id": f"{row['server']}:{row['name']}",
                "input_schema": row.get("inputSchema"),
            },
            REAL_TOOLS,
        )
        for row in read_rows(REAL_TOOLS)
    ]


def _phrase(row: Mapping[str, Any], field: str, keys: Iterable[str]) -> Question:
    needed = frozenset(row[field]) & frozenset(keys)
    return Question(id=row["id"], text=row["text"], groups=(needed,) if needed else ())
