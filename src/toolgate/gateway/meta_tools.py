"""The meta-tools: their definitions, and the models of their arguments.

Names and shapes follow the design that the first users of such gateways know (`tool_discovery`,
`tool_execute` with `toolKey` and `arguments`). Several client libraries send absent arguments as
null, so null means absent here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from toolgate.base import json_text
from toolgate.base.validation import Input, input_schema, problem_in
from toolgate.errors import ArgumentError
from toolgate.gateway.execution.result_formats import Format
from toolgate.gateway.execution.result_shape import Shape
from toolgate.types import Json, json_object

_MAX_QUERIES = 20
"""Phrases in one request (chosen)."""

READ_TOOL = "tool_read"
"""The meta-tool that runs only read-only tools."""

_MAX_CALLS = 20
"""Calls in one list (chosen: a few more than the steps that models plan at once)."""

_MAX_KEYS = 50
"""Tools described at once (chosen)."""

ArgumentsT = TypeVar("ArgumentsT", bound=Input)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Kind: TypeAlias = Literal["tool", "prompt", "resource", "template", "skill"]
"""The kinds that a search finds."""

OneOrMore = str | Annotated[list[str], Field(min_length=1)]
"""One text, or several."""

Texts = Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1)]
"""Several texts; clients may send a single one without a list."""


@dataclass(frozen=True, kw_only=True)
class DiscoverRequest:
    """A search for tools."""

    queries: tuple[str, ...]
    """What the tools should do, one phrase per step."""

    context: str = ""
    """Background of the task."""

    max_results: int | None = None
    """Hits wanted, 1 to 50; None for the value of the settings."""

    servers: tuple[str, ...] = ()
    """Only tools of these servers; empty for all."""

    threshold: float = 0.0
    """Lowest relevance in [0, 1] of a hit."""

    include_core: bool = False
    """Whether pinned tools are appended to those found; clients list them anyway."""

    budget_tokens: int = 0
    """Most estimated tokens of the answer, 200 or more; 0 for the value of the settings."""

    kinds: tuple[str, ...] = ()
    """Only these kinds (`Kind`); empty for all."""

    group: str = ""
    """Only tools of this capability group (`toolgate tools --groups` lists them); empty for all."""

    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Other search weights for this request only; models cannot set them."""

    as_text: bool = True
    """Whether the answer is written as text for a model, with related information."""

    @property
    def may_be_tool(self) -> bool:
        """Whether tools are searched."""
        return not self.kinds or "tool" in self.kinds


class DiscoverArguments(Input):
    """Arguments of `tool_discovery`."""

    query: OneOrMore
    context: str = Field("", description="Background of the task.")
    max_results: int = Field(0, alias="maxResults", ge=1, le=50)
    server: Texts = Field([], description="Only of these servers.")
    group: str = Field("", description="Only of this group.")
    kind: Annotated[list[Kind], BeforeValidator(_as_list)] = Field([], description="Only these.")
    threshold: float = Field(0.0, ge=0, le=1, description="Least relevance.")

    def request(self) -> DiscoverRequest:
        """Return the search.

        Raises:
            ArgumentError: It has too many phrases.
        """
        queries = _as_tuple(self.query)
        if len(queries) > _MAX_QUERIES:
            raise _misfit(
                "tool_discovery", "query", f"{len(queries)} phrases", f"1 to {_MAX_QUERIES}"
            )
        return DiscoverRequest(
            queries=queries,
            context=self.context,
            max_results=self.max_results or None,
            servers=tuple(self.server),
            threshold=self.threshold,
            group=self.group,
            kinds=tuple(self.kind),
        )


class DescribeArguments(Input):
    """Arguments of `tool_describe`."""

    keys: Texts = Field(alias="toolKeys", description="From tool_discovery.")

    @model_validator(mode="after")
    def _check_count(self) -> Self:
        if len(self.keys) > _MAX_KEYS:
            came = f"{len(self.keys)} keys"
            raise _misfit("tool_describe", "toolKeys", came, f"1 to {_MAX_KEYS}")
        return self


class ExecuteArguments(Input):
    """Arguments of `tool_execute`."""

    key: str = Field(alias="toolKey", description="server:tool.")
    arguments: dict[str, Any] = Field({}, description="Arguments of that tool.")
    select: str = Field("", description="jq filter of its result.")
    format: Format = "json"

    @property
    def shape(self) -> Shape:
        """The wanted part and format of the result."""
        form = self.format if "format" in self.model_fields_set else None
        return Shape(select=self.select.strip(), format=form)

    def normalized(self, tool: str = "tool_execute") -> Self:
        """Return the call, unwrapped if semantic-kernel, which reserves `arguments`, wrapped it.

        Args:
            tool: The meta-tool that messages name.

        Raises:
            ArgumentError: The key is blank.
        """
        if not self.key.strip():
            key = _quoted(self.key)
            raise _misfit(tool, "toolKey", key, 'a key such as "server:tool"')
        inner = self.arguments
        if set(inner) == {"toolKey", "arguments"} and inner["toolKey"] == self.key:
            inner = json_object(inner["arguments"])
        return self.model_copy(update={"key": self.key.strip(), "arguments": inner})


class CallsArguments(Input):
    """Arguments of `tool_execute` and `tool_read`: one call, or several in a list."""

    key: str = Field("", alias="toolKey", description="server:tool.")
    arguments: dict[str, Any] = Field({}, description="Arguments of that tool.")
    select: str = Field("", description="jq filter of its result.")
    format: Format = "json"
    calls: list[dict[str, Any]] = Field(
        [],
        max_length=_MAX_CALLS,
        description="Several {toolKey, arguments}.",
    )

    def requests(self, tool: str) -> tuple[ExecuteArguments, ...]:
        """Return the calls, in order; a single call if `calls` is empty.

        Args:
            tool: The meta-tool that messages name.

        Raises:
            ArgumentError: There is neither a key nor a list, or both, or a call is not valid.
        """
        if not self.calls:
            if "key" not in self.model_fields_set:
                raise _misfit(tool, "toolKey", "nothing", 'a key such as "server:tool"')
            members = {name: value for name, value in self.members().items() if name != "calls"}
            single = ExecuteArguments.model_validate(members, by_name=True)
            return (single.normalized(tool),)
        beside = {"toolKey": self.key, "arguments": self.arguments, "select": self.select}
        if names := [name for name, value in beside.items() if value]:
            raise _misfit(tool, names[0], "it and `calls`", "one call, or `calls`")
        return tuple(
            _read(tool, ExecuteArguments, call, within=f"calls[{number}]").normalized(tool)
            for number, call in enumerate(self.calls)
        )


class ProgramArguments(Input):
    """Arguments of `tool_program`."""

    code: str = Field("", max_length=100_000)
    inputs: dict[str, Any] = Field({}, description="Its variable `inputs`.")
    timeout_s: float = Field(0.0, gt=0, le=3600)
    max_result_tokens: int = Field(2_000, alias="maxResultTokens", ge=100, le=1_000_000)
    dry_run: bool = Field(False, alias="dryRun", description="Only check it and list its tools.")
    resume: str = Field("", description="Id of a parked program, instead of `code`.")

    def checked(self) -> Self:
        """Return the program.

        Raises:
            ArgumentError: There is no program, or both a new one and one that waited.
        """
        if bool(self.code.strip()) == bool(self.resume):
            came = "both" if self.resume else "nothing"
            allowed = "`code`, or `resume` with the id of a program that waits"
            raise _misfit("tool_program", "code", came, allowed)
        return self


class PromptArguments(Input):
    """Arguments of `processPrompt`."""

    prompt: str = Field(description="The user's message, unchanged and whole.")


class KnowledgeArguments(Input):
    """Arguments of `getKnowledge`."""

    queries: Annotated[Texts, Field(max_length=_MAX_QUERIES)] = Field(
        description="Actions, two to four words each."
    )


class ReadArguments(Input):
    """Arguments of `result_read`."""

    handle: str = Field(description="As the page before named it.")
    offset: int = Field(0, ge=0, description="Characters.")
    select: str = ""


_LIMITS = frozenset({"minimum", "maximum", "exclusiveMinimum", "maxLength", "minItems", "maxItems"})


_DESCRIBED: Mapping[str, tuple[str, ...]] = {
    "tool_discovery": ("context",),
    "tool_describe": (),
    "tool_execute": ("toolKey", "select"),
    READ_TOOL: ("calls",),
    "tool_program": ("inputs",),
}
"""Parameters that are listed with their description: the names of the others say the same. Tools
that are not named here describe all of theirs."""


def _listed(name: str, model: type[Input]) -> Json:
    """Return the schema of arguments that is listed: every request of a model pays for it.

    Limits are left out, since an argument that exceeds one is answered with what is allowed.
    """
    schema = json_object(_without_limits(input_schema(model)))
    parameters = json_object(schema["properties"])
    for parameter in parameters.keys() - _DESCRIBED.get(name, parameters.keys()):
        parameters[parameter].pop("description", None)
    return schema


def _without_limits(value: object) -> object:
    if isinstance(value, list):
        return list(map(_without_limits, cast("list[object]", value)))
    if isinstance(value, dict):
        members = json_object(cast("object", value)).items()
        return {key: _without_limits(part) for key, part in members if key not in _LIMITS}
    return value


_TABLE: Mapping[str, Json] = {
    "processPrompt": {
        "name": "processPrompt",
        "title": "Get the rules for a request",
        "description": (
            "Call this first, for every request of the user, before any other tool and before "
            "answering: pass the user's exact message. It tells what the message is about and "
            "gives the rules and tools for that, which you then follow, or PASS_THROUGH: then go "
            "on as usual. Call it again when the user changes the topic."
        ),
        "inputSchema": PromptArguments,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "getKnowledge": {
        "name": "getKnowledge",
        "title": "Get the rules for actions",
        "description": (
            "The rules for some short actions of two to four words each, such as "
            '["create relation", "list value lists"], when you know what has to be done and need '
            "to know how it is done here. For a message of the user, use processPrompt."
        ),
        "inputSchema": KnowledgeArguments,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "tool_discovery": {
        "name": "tool_discovery",
        "title": "Find tools",
        "description": (
            "Find tools of all connected servers by what they do. Pass one short phrase, or "
            'an array with one per step: ["list files in a folder", "send a message"]. '
            "Gives tool keys with signatures, best first, to run with tool_execute."
        ),
        "inputSchema": DiscoverArguments,
        "outputSchema": {
            "type": "object",
            "properties": {
                "results": {
                    "type": "array",
                    "items": {"type": "object", "required": ["toolKey", "relevance"]},
                },
                "fit": {"enum": ["good", "unsure", "none"]},
            },
            "required": ["results", "fit"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "tool_describe": {
        "name": "tool_describe",
        "title": "Show full schemas",
        "description": "Full schemas of tools, when a signature is not enough.",
        "inputSchema": DescribeArguments,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    "tool_execute": {
        "name": "tool_execute",
        "title": "Run a tool",
        "description": (
            "Run a tool by its key. Arguments that do not fit are answered with what does."
        ),
        # Lists of calls are accepted too. They run only read-only tools, so `tool_read` describes
        # them, and a model pays for the description once.
        "inputSchema": ExecuteArguments,
    },
    READ_TOOL: {
        "name": READ_TOOL,
        "title": "Run a read-only tool",
        "description": "As tool_execute, for read-only tools.",
        "inputSchema": CallsArguments,
        "annotations": {"readOnlyHint": True},
    },
    "tool_program": {
        "name": "tool_program",
        "title": "Run a program over tools",
        "description": (
            "Run Python over several tools, for dependent steps, loops and large results; only "
            "its result comes back. The tool shop:orders is "
            '`await shop.orders(status="open")` and gives JSON. Also awaited: `gather(a, b)` in '
            'parallel, `search("phrase")`, `describe("shop.orders")`, `select(value, ".jq")`, '
            "`store(name, value)` and `load(name)` across programs. Return the result; print "
            "logs. Imports: json, re, math, datetime. No files or network."
        ),
        "inputSchema": ProgramArguments,
    },
    "result_read": {
        "name": "result_read",
        "title": "Read on",
        "description": "Next page of a result that was too long for one answer.",
        "inputSchema": ReadArguments,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
}
"""The definitions, with models in place of schemas."""


@cache
def _definition(name: str) -> Json:
    schema = _listed(name, _TABLE[name]["inputSchema"])
    return {**_TABLE[name], "inputSchema": schema}


class _MetaToolDefinitions(Mapping[str, Json]):
    """Makes each input schema when it is first read, as pydantic needs 30 ms for all of them."""

    def __getitem__(self, name: str) -> Json:
        return _definition(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_TABLE)

    def __len__(self) -> int:
        return len(_TABLE)

    def __contains__(self, name: object) -> bool:
        return name in _TABLE


DEFINITIONS: Mapping[str, Json] = _MetaToolDefinitions()
"""Definitions by name, as `tools/list` shows them."""


def read_discover(arguments: object) -> DiscoverRequest:
    """Parse the arguments of `tool_discovery`.

    Raises:
        ArgumentError: They are not valid; the message says which, and what is allowed.
    """
    return _read("tool_discovery", DiscoverArguments, arguments).request()


def read_describe(arguments: object) -> DescribeArguments:
    """Parse the arguments of `tool_describe`.

    Raises:
        ArgumentError: They are not valid.
    """
    return _read("tool_describe", DescribeArguments, arguments)


def read_execute(arguments: object) -> ExecuteArguments:
    """Parse the arguments of `tool_execute`.

    Raises:
        ArgumentError: They are not valid.
    """
    return _read("tool_execute", ExecuteArguments, arguments).normalized()


def read_calls(tool: str, arguments: object) -> tuple[ExecuteArguments, ...]:
    """Parse the arguments of `tool_execute` or `tool_read` into calls, in order.

    Raises:
        ArgumentError: They are not valid.
    """
    return _read(tool, CallsArguments, arguments).requests(tool)


def read_program(arguments: object) -> ProgramArguments:
    """Parse the arguments of `tool_program`.

    Raises:
        ArgumentError: They are not valid.
    """
    return _read("tool_program", ProgramArguments, arguments).checked()


def read_process_prompt(arguments: object) -> PromptArguments:
    """Parse the arguments of `processPrompt`.

    Raises:
        ArgumentError: They are not valid, or contain no message.
    """
    read = _read("processPrompt", PromptArguments, _completed(arguments, "prompt", ""))
    if not read.prompt.strip():
        raise ArgumentError("Error: prompt parameter is required")
    return read


def read_get_knowledge(arguments: object) -> KnowledgeArguments:
    """Parse the arguments of `getKnowledge`, without duplicate actions.

    Raises:
        ArgumentError: They are not valid, or contain no action.
    """
    read = _read("getKnowledge", KnowledgeArguments, _completed(arguments, "queries", [""]))
    queries = list(dict.fromkeys(query for query in read.queries if query.strip()))
    if not queries:
        raise ArgumentError("Error: queries parameter is required")
    return read.model_copy(update={"queries": queries})


def read_result_read(arguments: object) -> ReadArguments:
    """Parse the arguments of `result_read`.

    Raises:
        ArgumentError: They are not valid.
    """
    return _read("result_read", ReadArguments, arguments)


def _read(tool: str, model: type[ArgumentsT], arguments: object, *, within: str = "") -> ArgumentsT:
    """Parse arguments into a model; `within` is the argument that contains them."""
    if arguments is not None and not isinstance(arguments, dict):
        raise _misfit(tool, "arguments", _quoted(arguments), "a JSON object")
    try:
        return model.model_validate(arguments or {})
    except ValidationError as error:
        problem = problem_in(error, model)
    if problem.kind == "unknown":
        near = get_close_matches(problem.name[:60], problem.allowed.split(", "), 1)
        raise ArgumentError(
            f"{tool} has no argument {_member(within, problem.name)!r}.",
            allowed=f"Allowed: {problem.allowed}.",
            hint=f"Did you mean {near[0]!r}?" if near else "Leave it out.",
        )
    name = _member(within, problem.name)
    raise _misfit(tool, name, _quoted(problem.value), problem.allowed)


def _member(within: str, name: str) -> str:
    return f"{within}.{name[:60]}".lstrip(".")


def _completed(arguments: object, name: str, blank: object) -> object:
    """Add a missing argument as a blank one, so that the others are checked first."""
    members = json_object(arguments)
    if not members and arguments is not None and arguments != {}:
        return arguments
    return members if members.get(name) else {**members, name: blank}


def _as_tuple(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _quoted(value: object) -> str:
    return "nothing" if value is None else json_text.dumps(value).decode()[:60]


def _misfit(tool: str, name: str, came: str, allowed: str) -> ArgumentError:
    return ArgumentError(
        f"{tool}: {name!r} does not fit: {came} came.",
        allowed=f"Allowed: {allowed}.",
        hint=f"Signature: {_SIGNATURES[tool]}",
    )


_SIGNATURES = {
    "tool_discovery": "tool_discovery(query: string | string[], context?, maxResults?: integer, "
    "server?: string[], group?, kind?: string[], threshold?: number)",
    "tool_describe": "tool_describe(toolKeys: string[])",
    "tool_execute": "tool_execute(toolKey, arguments: object, select?, format?) or "
    "tool_execute(calls: [{toolKey, arguments}])",
    READ_TOOL: "tool_read(toolKey, arguments: object, select?, format?) or "
    "tool_read(calls: [{toolKey, arguments}])",
    "tool_program": "tool_program(code, inputs?: object, timeout_s?: number, maxResultTokens?: "
    "integer, dryRun?: boolean, resume?)",
    "result_read": "result_read(handle, offset?: integer, select?)",
    "processPrompt": "processPrompt(prompt)",
    "getKnowledge": "getKnowledge(queries: string[])",
}
