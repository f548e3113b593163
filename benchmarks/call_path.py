"""Counts how much of our code a request runs: functions, files, jumps between files.

    python -m benchmarks.call_path [--quick] [--json] [--list]

Each request goes through the HTTP interface in this process, with one server, and is traced once
everything is loaded. A jump is a call to a function in another file than that of the function
entered before it: a file that a reader who follows the request has to open. `--list` prints the
functions in the order in which they are entered, indented by depth.
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import orjson

import toolgate
from benchmarks._inprocess import LOCAL_HOST, Request, send, wait_until_idle
from benchmarks._mcp import tools_call
from benchmarks._report import Report, Target, parser_of, print_measured
from toolgate.server.http import build_app
from toolgate.settings import ModelTable, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result

SOURCES = f"{Path(toolgate.__file__).parent}/"
MAX_JUMPS = {"tools/call": 119, "tool_discovery": 194, "chat turn": 280}
"""Two thirds of 178, 291 and 420, the counts of this script before the code was restructured."""
KEY = "k"
SHARED_HEADERS = (LOCAL_HOST, (b"x-toolgate-key", KEY.encode()))
WARM_UPS, REPEATS = 2, 5
"""Chosen: the first two requests load and cache things, which is not part of the path."""
PAUSE_S = 0.2
"""Chosen: the audit is written every 200 ms, outside the request."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A function of ours that was entered."""

    file: str
    """Path within the package."""

    function: str
    """Its qualified name."""

    depth: int
    """How many of our functions are below it on the stack."""


def measure(quick: bool) -> Report:
    """Trace each request and return the table. The quick form is the same."""
    del quick
    traces = asyncio.run(_traces())
    rows = [
        {
            "request": name,
            "entries": len(entries),
            "functions": len({(entry.file, entry.function) for entry in entries}),
            "files": len({entry.file for entry in entries}),
            "jumps": _jumps(entries),
            "deepest": max(entry.depth for entry in entries),
        }
        for name, entries in traces.items()
    ]
    return Report(
        name="call_path",
        title="Our own code that one request runs",
        rows=rows,
        targets=[
            Target(what=f"jumps of a {name}", measured=_jumps(traces[name]), limit=limit)
            for name, limit in MAX_JUMPS.items()
        ],
        notes=(
            "Entries: calls of own functions and resumed coroutines. Jumps: entries in another file"
            " than the one before.",
        ),
    )


def _jumps(entries: list[Entry]) -> int:
    return sum(before.file != after.file for before, after in pairwise(entries))


async def _traces() -> dict[str, list[Entry]]:
    answers = {name: lambda _: text_result("ok") for name in ("list_issues", "create_issue")}
    model = ModelTable(provider="scripted", options={"steps": [{"say": "hello {user}"}]})
    settings = Settings(models={"main": model})
    async with memory_app({"github": FakeUpstream(answers)}, settings) as app:
        application = build_app(app, key=KEY)
        async with application.running():
            await wait_until_idle()
            return {
                name: await _traced(application, requests) for name, requests in REQUESTS.items()
            }
    raise AssertionError("the gateway did not open")


async def _traced(application: Any, requests: Sequence[Request]) -> list[Entry]:
    """The fewest functions that a request enters: background work only adds to them."""
    traces: list[list[Entry]] = []
    for request in requests:
        with _tracing() as entries:
            await send(application, request)
        traces.append(entries)
        await asyncio.sleep(PAUSE_S)
    return min(traces[WARM_UPS:], key=len)


@contextmanager
def _tracing() -> Iterator[list[Entry]]:
    """Collect the functions that this thread enters."""
    entries: list[Entry] = []

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCES):
            file = code.co_filename.removeprefix(SOURCES)
            entries.append(Entry(file=file, function=code.co_qualname, depth=_depth(frame.f_back)))

    sys.setprofile(enter)
    try:
        yield entries
    finally:
        sys.setprofile(None)


def _depth(frame: FrameType | None) -> int:
    """How many of our functions are on the stack from this frame down."""
    depth = 0
    while frame is not None:
        depth += frame.f_code.co_filename.startswith(SOURCES)
        frame = frame.f_back
    return depth


def _call(name: str, arguments: dict[str, Any]) -> Request:
    body, names = tools_call(name, arguments)
    headers = [(key.lower().encode(), value.encode()) for key, value in names.items()]
    return Request(path="/mcp", headers=[*SHARED_HEADERS, *headers], body=orjson.dumps(body))


def _chat(text: str) -> Request:
    body = {"model": "main", "messages": [{"role": "user", "content": text}]}
    headers = [*SHARED_HEADERS, (b"content-type", b"application/json")]
    return Request(path="/v1/chat/completions", headers=headers, body=orjson.dumps(body))


# Each search asks for something else, so that no cached answer is returned.
REQUESTS = {
    "tools/call": [_call("github__list_issues", {})] * REPEATS,
    "tool_execute": [_call("tool_execute", {"toolKey": "github:list_issues", "arguments": {}})]
    * REPEATS,
    "tool_discovery": [
        _call("tool_discovery", {"query": f"make a new ticket about {thing}"})
        for thing in ("a bug", "a crash", "a typo", "a leak", "a delay")
    ],
    "chat turn": [_chat("hello there")] * REPEATS,
}


def _print_functions() -> None:
    for name, entries in asyncio.run(_traces()).items():
        print(f"== {name}")
        for entry in entries:
            print(f"{'  ' * entry.depth}{entry.file}:{entry.function}")


if __name__ == "__main__":
    parser = parser_of("call_path")
    parser.add_argument("--list", action="store_true", help="print the functions as entered")
    given = parser.parse_args()
    if given.list:
        _print_functions()
    else:
        print_measured(given, measure)
