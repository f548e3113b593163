"""Short requests written for servers of public catalogs, and near misses that none of them serves.

`written_requests.jsonl` has, for each server, a line with its catalog, its name, its split and the
tools that the writer was shown, and then a line for each request: the text, and the positions of
the tools that serve it. A request without positions is a near miss: no tool of that server serves
it, though one of another server may.

The servers of the split `fit` train the embedding model, and those of `held-out` are used to fit
and check what the search says about its hits. Own work (Apache-2.0).
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from toolgate.evaluation.search_metrics import LabelledSet, Question, read_labelled
from toolgate.search import SearchableTool

_FILE: Final = Path(__file__).with_name("written_requests.jsonl")
CATALOGS: Final = ("toucan", "stabletoolbench")
"""Folders under `tools/` with the servers."""
_SERVERS: Final = 35
"""Servers of a catalog, about as many as `benchmarks/data/real_tools.jsonl` has."""
_OTHERS: Final = 150
"""Requests for servers that a catalog does not have, added to its own."""


class WrittenRequest(NamedTuple):
    """A request and what serves it."""

    catalog: str
    """The folder with the tools."""
    server: str
    """The server for which it was written."""
    text: str
    """The request."""
    serving: tuple[str, ...]
    """Ids of the tools of the server that serve it; none for a near miss."""
    shown: tuple[str, ...]
    """Ids of the tools of the server that the writer was shown."""


def written_requests(split: str) -> Iterator[WrittenRequest]:
    """Read the requests for the servers of a split, `fit` or `held-out`."""
    server: dict[str, object] = {}
    shown: list[str] = []
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if isinstance(row, dict):
            server, shown = row, [*map(str, row["shown"])]
        elif server["split"] == split:
            text, *places = row
            serving = tuple(shown[place] for place in places)
            yield WrittenRequest(
                str(server["catalog"]), str(server["server"]), text, serving, tuple(shown)
            )


def sets_of_servers(data: Path) -> list[LabelledSet]:
    """Requests over the tools of 35 held-out servers at a time, always the same ones.

    Args:
        data: Folder with `tools/`.
    """
    tools: dict[tuple[str, str], list[SearchableTool]] = {}
    for name in CATALOGS:
        for tool in read_labelled(data / "tools" / name).tools:
            tools.setdefault((name, tool.server), []).append(tool)
    requests: dict[tuple[str, str], list[WrittenRequest]] = {}
    for request in written_requests("held-out"):
        requests.setdefault((request.catalog, request.server), []).append(request)
    servers = list(requests)
    rng = random.Random(3)  # noqa: S311 - a choice, no secret
    rng.shuffle(servers)
    sets: list[LabelledSet] = []
    for begin in range(0, len(servers) - _SERVERS // 2, _SERVERS):
        some = servers[begin : begin + _SERVERS]
        absent = [
            request
            for server in servers
            if server not in some
            for request in requests[server]
            if request.serving
        ]
        questions = [
            *((request, request.serving) for server in some for request in requests[server]),
            *((request, ()) for request in rng.sample(absent, _OTHERS)),
        ]
        sets.append(
            LabelledSet(
                name=f"written, {len(some)} servers",
                tools=tuple({tool.key: tool for key in some for tool in tools[key]}.values()),
                questions=tuple(
                    Question(
                        id=str(at),
                        text=request.text,
                        groups=(frozenset(serving),) if serving else (),
                    )
                    for at, (request, serving) in enumerate(questions)
                ),
            )
        )
    return sets
