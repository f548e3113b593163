"""Routes of tools: search, definitions, calls, and what is learned from use."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, cast

from pydantic import Field

from toolgate.errors import ArgumentError, ProgramError
from toolgate.gateway.listing import ToolView
from toolgate.gateway.meta_tools import (
    CallsArguments,
    DescribeArguments,
    DiscoverArguments,
    DiscoverRequest,
    OneOrMore,
    ProgramArguments,
    ReadArguments,
)
from toolgate.gateway.programs.kept import KeptProgram, KeptValue
from toolgate.server.rest.models import Answer, Body, PageOf, Query
from toolgate.server.rest.routing import Call, Routes
from toolgate.types import Json, json_object

routes = Routes()

Format = Literal["mcp", "openai", "anthropic"]
"""Forms in which definitions are given, ready for a model's API."""


class Discover(DiscoverArguments, Body):
    """A search: the arguments of `tool_discovery`, and what programs need in addition."""

    limit: int = Field(0, ge=1, le=50, description="Another name of maxResults.")
    servers: OneOrMore = Field("", description="Another name of server.")
    include_core: bool = Field(True, description="Whether pinned tools follow the results.")
    budget_tokens: int = Field(
        0, ge=200, le=100_000, description="Most estimated tokens of the answer."
    )
    explain: bool = Field(False, description="Whether each result says how it was ranked.")
    format: Format | None = Field(None, description="Adds the definitions in this form.")

    def request(self) -> DiscoverRequest:
        """The search.

        Raises:
            ArgumentError: The same is given under two names, or does not fit.
        """
        for names in (("limit", "maxResults"), ("servers", "server")):
            if {name.replace("maxR", "max_r") for name in names} <= self.model_fields_set:
                raise ArgumentError(
                    f"{names[0]!r} and {names[1]!r} are the same.", hint="Give one of them."
                )
        request = super().request()
        servers = [self.servers] if isinstance(self.servers, str) else self.servers
        return replace(
            request,
            max_results=self.limit or request.max_results,
            servers=tuple(servers) if self.servers else request.servers,
            include_core=self.include_core,
            budget_tokens=self.budget_tokens,
        )


@routes.post("discover", example={"query": "list the open issues", "limit": 3})
async def discover(call: Call, body: Discover) -> Json:
    """Find the tools that fit a request, or each of several."""
    discovery = await call.gateway.discovery.discover(call.caller, body.request())
    answer = discovery.structured(explain=True) if body.explain else discovery.structured()
    if body.format is None:
        return {**answer, "text": discovery.text}
    keys = [str(hit["toolKey"]) for hit in answer["results"] if hit["kind"] == "tool"]
    return {**answer, "tools": _definitions(call, keys, body.format)}


class Describe(DescribeArguments, Body):
    """Tools by key."""

    indexed: bool = Field(False, description="Adds the texts by which the meaning is found.")
    format: Format | None = Field(None, description="Only the definitions, in this form.")


@routes.post("describe", example={"toolKeys": ["github:list_issues"]})
async def describe(call: Call, body: Describe) -> Json:
    """Show tools by key, whole."""
    described = await call.gateway.discovery.describe(call.caller, body.keys)
    if body.format is not None:
        return {"tools": _definitions(call, body.keys, body.format)}
    answer: Json = {**described.structured(), "text": described.text}
    if body.indexed:
        tools = cast("list[Json]", answer["tools"])
        keys = [str(tool["toolKey"]) for tool in tools if "kind" not in tool]
        texts = call.gateway.manage.vectors.texts(call.caller, keys)
        answer["tools"] = [
            {**tool, **(asdict(texts[key]) if (key := str(tool["toolKey"])) in texts else {})}
            for tool in tools
        ]
    return answer


class Execute(CallsArguments, Body):
    """A call, or several: the arguments of `tool_execute`."""


class CallResult(Answer):
    """The result of a tool, unchanged."""

    content: Sequence[Any] = ()
    isError: bool = False  # noqa: N815 - its name in MCP


@routes.post(
    "execute",
    answer=CallResult,
    example={"toolKey": "github:list_issues", "arguments": {"owner": "acme"}},
)
async def execute(call: Call, body: Execute) -> Json:
    """Run a tool; without `select` and `format` its result is unchanged.

    With `calls`, several read-only tools run at once, and `structuredContent.results` has theirs.
    """
    requests = body.requests("tool_execute")
    if body.calls:
        return await call.gateway.meta_calls.run_list(call.caller, requests, is_structured=True)
    (request,) = requests
    return await call.gateway.shaper.run(
        call.caller,
        request.shape,
        lambda: call.gateway.calls.execute(call.caller, request.key, request.arguments),
    )


class ReadResult(ReadArguments, Body):
    """A page of a stored result, or a part: the arguments of `result_read`."""


@routes.post("result", answer=CallResult, example={"handle": "eyJpIjoi…", "select": ".items"})
async def read_result(call: Call, body: ReadResult) -> Json:
    """Read on in a result that was cut, as that of a program can be."""
    return await call.gateway.meta_calls.read_result(call.caller, body)


class RunProgram(ProgramArguments, Body):
    """A program, or one that waited: the arguments of `tool_program`."""


class ProgramResult(CallResult):
    """The result of a program."""

    waiting: Json | None = None
    """While a person has to approve calls: the `id` to resume it with, the `calls`, and the `page`
    on which people decide."""


@routes.post(
    "program",
    answer=ProgramResult,
    example={"code": "await github.list_issues(owner='acme')"},
)
async def program(call: Call, body: RunProgram) -> Json:
    """Run a program over tools, or let one go on that waited for a person.

    While its calls await approval the answer has `waiting`.
    """
    try:
        return await call.gateway.programs.run(call.caller, body.checked(), {}, None)
    except ProgramError as error:
        if not error.is_waiting:
            raise
        text = {"type": "text", "text": str(error)}
        return {"content": [text], "waiting": dict(error.waiting)}


class ToolQuery(Query):
    """Which tools, and in which form."""

    server: str | None = Field(None, description="Only of this server.")
    format: Format | None = Field(None, description="Definitions ready for a model.")


class ToolList(PageOf):
    """Tools, in the order of the catalog."""

    tools: list[Json]


@routes.get("tools", pages="tools", answer=ToolList)
async def tools(call: Call, query: ToolQuery) -> Json:
    """List all tools in the order of the catalog."""
    views = [
        tool
        for tool in call.gateway.listing.tool_views(call.caller)
        if query.server is None or tool.server == query.server
    ]
    if query.format is not None:
        return {"tools": [_definition(tool, query.format) for tool in views]}
    return {"tools": [_summary(tool) for tool in views]}


class GroupList(PageOf):
    """Capability groups."""

    groups: list[Json]


@routes.get("groups", pages="groups", answer=GroupList)
async def groups(call: Call) -> Json:
    """List the capability groups."""
    return {"groups": await call.gateway.discovery.groups(call.caller)}


@routes.get("running")
async def running(call: Call) -> Json:
    """List the calls that run now."""
    return {"running": [asdict(running) for running in call.gateway.calls.running(call.caller)]}


class Mark(Body):
    """Whether a tool was right for a search that showed it."""

    toolKey: str  # noqa: N815 - its name on the wire
    mark: Literal["right", "wrong"]


@routes.post("mark", example={"toolKey": "github:list_issues", "mark": "right"})
async def mark(call: Call, body: Mark) -> Mark:
    """Say that a tool which a search showed was right, or wrong."""
    await call.gateway.learning.mark(call.caller, body.toolKey, right=body.mark == "right")
    return body


class KeptByPrograms(Answer):
    """What programs left behind."""

    values: Sequence[KeptValue]
    programs: Sequence[KeptProgram]


@routes.get("programs", answer=KeptByPrograms)
async def programs(call: Call) -> Json:
    """List the values that programs stored, and the programs that wait for a person."""
    kept = call.gateway.kept_programs
    values, waiting = await kept.values(call.caller), await kept.programs(call.caller)
    return {"values": list(map(asdict, values)), "programs": list(map(asdict, waiting))}


@routes.delete("programs/{name}")
async def forget_program(call: Call, name: str) -> Json:
    """Delete a value that a program stored, or a program that waits, by its id."""
    await call.gateway.kept_programs.forget(call.caller, name)
    return {"id": name}


@routes.get("usage")
async def usage(call: Call) -> Json:
    """Show what was learned from use."""
    return asdict(await call.gateway.learning.status(call.caller))


@routes.delete("usage")
async def forget_usage(call: Call) -> Json:
    """Forget what was searched and used."""
    return {"searches": await call.gateway.learning.clear(call.caller)}


def _definitions(call: Call, keys: Sequence[str], form: Format) -> list[Json]:
    """Return tool definitions by key."""
    views = {tool.key: tool for tool in call.gateway.listing.tool_views(call.caller)}
    views |= {tool.exposed: tool for tool in views.values()}
    return [_definition(views[key], form) for key in keys if key in views]


def _definition(tool: ToolView, form: Format) -> Json:
    """Return a tool's definition for a model's API; `mcp`: as in MCP."""
    definition = tool.definition
    if form == "mcp":
        return {**definition, "name": tool.exposed}
    description = str(definition.get("description") or "")
    schema = json_object(definition.get("inputSchema")) or {"type": "object"}
    if form == "anthropic":
        return {"name": tool.exposed, "description": description, "input_schema": schema}
    function = {"name": tool.exposed, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


def _summary(tool: ToolView) -> Json:
    return {
        "toolKey": tool.key,
        **({"ownKey": tool.own_key} if tool.own_key != tool.key else {}),
        "toolName": tool.exposed,
        "serverName": tool.server,
        "description": tool.definition.get("description", ""),
        "down": tool.down,
    }
