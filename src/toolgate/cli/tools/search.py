"""`toolgate search`: search for tools."""

import sys
from collections import Counter
from typing import cast

import anyio

from toolgate.cli.client._gateway_client import GatewayClient, has_matches
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, plural, print_json, print_text, spinner, wrap_text
from toolgate.cli.terminal._plain_command import Option, PlainCommand, Positional
from toolgate.cli.terminal._sanitize import one_line
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_object, relevance_text

_BUDGET_TOKENS = 100_000
"""Most estimated tokens of an answer with a requested number of results: the largest allowed."""
_SIBLINGS = 6
"""Further tools of a server that are listed (chosen)."""


def search(
    query: list[str],
    limit: int = 0,
    server: list[str] | None = None,
    kind: list[str] | None = None,
    group: str = "",
    threshold: float = 0.0,
    no_pinned: bool = False,
    explain: bool = False,
    mark: str = "",
    as_json: bool = False,
) -> int:
    """Search for tools. Exit status 3 if there are no or only weak matches.

    JSON: {"results": [{"toolKey", "toolName", "serverName", "kind", "relevance", "source",
    "description", "explanation", "signature", "annotations", "outputSchema", "weak", "down",
    "alternatives", "usedWith", "reasons"}], "siblings",
    "fit", "notice", "total_searched", "duration_ms", "query_embedded", "estimatedTokens",
    "text"}; source is exact, lexical, vector, usage, core, cloud or llm, and reasons is there
    with --explain.
    """
    request: Json = {"query": " ".join(query), "include_core": not no_pinned}
    if mark and mark not in {"right", "wrong"}:
        raise ArgumentError(f"--mark is {mark!r:.60}.", allowed="Allowed: right, wrong.")
    if mark:
        return anyio.run(_mark, " ".join(query), mark, as_json)
    if limit:
        # A person who asks for a number of results wants them all, whatever they cost a model.
        request |= {"limit": limit, "budget_tokens": _BUDGET_TOKENS}
    if server:
        request["servers"] = server
    if kind:
        request["kind"] = kind
    if group:
        request["group"] = group
    if threshold:
        request["threshold"] = threshold
    if explain:
        request["explain"] = True
    return anyio.run(_search, request, as_json)


command = PlainCommand(
    name="search",
    help="Search for tools.",
    argument=Positional(
        name="query",
        metavar="QUERY",
        help="What a tool should do, in plain words.",
        repeated=True,
    ),
    options=(
        Option(
            flags=("--limit", "-n"),
            kind=int,
            minimum=1,
            maximum=50,
            help="Maximum number of results. Default: discovery.max_results.",
        ),
        Option(
            flags=("--server",),
            metavar="NAME",
            repeated=True,
            help="Only tools from this server. Can be repeated.",
        ),
        Option(
            flags=("--kind",),
            metavar="KIND",
            repeated=True,
            help="Only results of this kind: tool, prompt, resource, template or skill. Can be "
            "repeated.",
        ),
        Option(flags=("--group",), metavar="NAME", help="Only tools of this capability group."),
        Option(
            flags=("--threshold",),
            kind=float,
            maximum=1,
            default=0.0,
            help="Minimum relevance, from 0 to 1.",
        ),
        Option(
            flags=("--no-pinned",), kind=bool, help="Do not show pinned tools after the results."
        ),
        Option(flags=("--explain",), kind=bool, help="Explain why each tool was found."),
        Option(
            flags=("--mark",),
            metavar="right|wrong",
            help="Instead of searching, rate a result of your last search; pass its key "
            "(server:tool) as QUERY.",
        ),
        Option(flags=("--json",), parameter="as_json", kind=bool, help="Print the result as JSON."),
    ),
    call=search,
)
"""The command and its options."""


async def _mark(key: str, word: str, as_json: bool) -> int:
    async with open_gateway(connect=()) as gateway:
        answer = await gateway.request("POST", "mark", {"toolKey": key, "mark": word})
    if as_json:
        print_json(answer)
    else:
        note(f"Marked {one_line(key)} as {word}.")
    return SUCCESS


async def _search(request: Json, as_json: bool) -> int:
    with spinner("Searching"):
        async with open_gateway() as gateway:
            answer = await gateway.discover(request)
            quarantined = Counter[str]() if as_json else await _quarantined(gateway)
    hits = cast("list[Json]", answer.get("results") or [])
    if as_json:
        print_json(answer)
    else:
        for hit in hits:
            show(hit)
        for server, names in json_object(answer.get("siblings")).items():
            print_text(_siblings_line(server, cast("list[str]", names)))
        if request.get("explain"):
            embedded = "words and meaning" if answer.get("query_embedded") else "words only"
            note(
                f"Searched {int(answer.get('total_searched') or 0):,} tools by {embedded} in"
                f" {float(answer.get('duration_ms') or 0):.1f} ms."
            )
        if answer.get("notice"):
            note(wrap_text(str(answer["notice"]), sys.stderr))
            if not hits and not answer.get("total_searched"):
                note("See: toolgate servers list")
        elif not hits:
            note("No matching tools. Try other words, or see: toolgate tools")
        for server, count in quarantined.items():
            if server in request.get("servers", [server]):
                note(
                    f"Not searched: {plural(count, 'quarantined definition')} of {server}."
                    f" See: toolgate servers approve {server}"
                )
    return SUCCESS if has_matches(answer) else NO_RESULT


async def _quarantined(gateway: GatewayClient) -> Counter[str]:
    """Count the quarantined definitions that a search would find, by server."""
    if not any(server["held"] for server in await gateway.servers()):
        return Counter()
    return Counter(
        str(entry["serverName"])
        for entry in await gateway.rows("held")
        if entry["kind"] != "instructions"
    )


def show(hit: Json) -> None:
    """Print a hit: key, relevance, description, signature, and the explanation if there is one."""
    is_core = hit.get("source") == "core"
    relevance = "pinned" if is_core else relevance_text(float(hit.get("relevance") or 0))
    weak = "  weak" if hit.get("weak") else ""
    kind = "" if hit.get("kind", "tool") == "tool" else f"  {hit['kind']}"
    print_text(f"{one_line(str(hit['toolKey']))}  {relevance}{kind}{weak}")
    for line in (hit.get("description"), hit.get("signature")):
        if line:
            print_text(f"    {one_line(str(line))}")
    if same := cast("list[str]", hit.get("alternatives") or []):
        print_text(f"    same as: {one_line(', '.join(same))}")
    if partners := cast("list[Json]", hit.get("usedWith") or []):
        keys = ", ".join(str(other["toolKey"]) for other in partners)
        print_text(f"    often used with: {one_line(keys)}")
    if is_core:
        return
    if "reasons" not in hit and hit.get("explanation"):
        print_text(f"    why: {one_line(str(hit['explanation']))}")
    if "reasons" in hit:
        for line in _reasons(hit):
            print_text(f"    {one_line(line)}")


def _siblings_line(server: str, names: list[str]) -> str:
    """List further tools of a server, on one line."""
    left = len(names) - _SIBLINGS
    more = f" and {left} more" if left > 0 else ""
    return one_line(f"Also on {server}: {', '.join(names[:_SIBLINGS])}{more}")


def _reasons(hit: Json) -> list[str]:
    """List why a tool was found, field by field, without empty fields."""
    lines = [f"source: {hit.get('source')}"]
    for name, value in json_object(hit["reasons"]).items():
        if name == "query" or value is None or value in ({}, [], "", False):
            continue
        if isinstance(value, dict):
            parts = cast("Json", value).items()
            value_text = "; ".join(f"{field} {_value_text(words)}" for field, words in parts)
        else:
            value_text = _value_text(value)
        lines.append(f"{name}: {value_text}")
    return lines


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, cast("list[object]", value)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
