"""Python functions as tools: `@tool`, what a tool may use while it runs, and their server.

Needs no protocol library: the server answers in plain dicts, in the task of its caller. It speaks
the handshake era, in which a tool can ask the client in the middle of a call.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from typing import Any, TypeVar, cast, get_args, get_type_hints, overload

import anyio
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

import toolgate
from toolgate.errors import (
    BrokenPluginError,
    CannotAskError,
    ConnectionLostError,
    InvalidAnswerError,
    RpcError,
    ToolgateError,
)
from toolgate.types import LEGACY_VERSION, Caller, Json, Peer
from toolgate.upstream.base import CallSink, WireEvents
from toolgate.upstream.json_text import write_json

__all__ = [
    "FunctionTool",
    "FunctionWire",
    "ToolContext",
    "ToolServices",
    "acting_for",
    "context_of_call",
    "is_context",
    "tool",
    "tools_of",
]

log = logging.getLogger(__name__)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_MARK = "__toolgate_tool__"
_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", LEGACY_VERSION)
_INVALID_PARAMS = -32602
_METHOD_NOT_FOUND = -32601


@dataclass(frozen=True, kw_only=True)
class _CallScope:
    caller: Caller
    peer: Peer | None


_actor: ContextVar[_CallScope | None] = ContextVar("toolgate_actor", default=None)


@contextmanager
def acting_for(caller: Caller, peer: Peer | None = None) -> Generator[None]:
    """Let tools that are called inside see for whom they run."""
    token = _actor.set(_CallScope(caller=caller, peer=peer))
    try:
        yield
    finally:
        _actor.reset(token)


@dataclass(frozen=True, kw_only=True)
class ToolServices:
    """What Toolgate hands to the tools of a pack."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The table `[packs.options.NAME]` of the pack."""

    connections: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Databases by their names in `[connections]`, each a `Connection`."""

    schemas: object = None
    """The history of their schemas, a `SchemaHistory`; None where nothing is
    kept."""

    chat: Callable[[], object] = lambda: None
    """Gives the configured chat model, a `ChatModel`; None where there is none."""

    store: object = None
    """The gateway's own store; None where nothing is kept."""

    may: Callable[[Caller, str], bool] = lambda _caller, _right: False
    """Whether a caller has a right: `manage`, `internal`, `approve`."""

    documents: object = None
    """The verbs about documents, a `DocumentService`; None where there are none."""

    prompts: object = None
    """The prompt service, a `toolgate.gateway.prompts.PromptService`; None where there is none."""


class ToolContext:
    """What a tool may use while it runs.

    A parameter annotated with it gets it, wherever it stands and whatever its name, and is not part
    of the tool's schema.
    """

    def __init__(
        self,
        *,
        caller: Caller,
        peer: Peer | None,
        sink: CallSink | None,
        services: ToolServices | None = None,
    ) -> None:
        self.caller = caller
        """Who calls."""
        self.peer = peer
        """The way back to the client; None when nobody is there."""
        self._sink = sink
        self._services = services or ToolServices()

    @property
    def project(self) -> str:
        """The tenant that the call belongs to."""
        return self.caller.project_id

    @property
    def thread(self) -> str:
        """The conversation that the call belongs to; empty where that is not known."""
        return self.caller.conversation

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the pack of the tool was told: the table `[packs.options.NAME]`."""
        return self._services.settings

    @property
    def connections(self) -> Mapping[str, Any]:
        """Databases by their names in `[connections]`, each with its `dialect` and `description`.

        `await connections["shop"].reading(work)` hands a connection of SQLAlchemy to `work`, in a
        thread and in a transaction that cannot write.
        """
        return self._services.connections

    @property
    def schemas(self) -> Any:
        """The history of the schemas of `connections`; None where nothing is kept."""
        return self._services.schemas

    @property
    def chat(self) -> Any:
        """The chat model that is configured, a `ChatModel`; None where there is none.

        `reply = await complete(context.chat, ChatRequest(messages=(Message(role="user",
        content="..."),)))`, with the names of `toolgate.models.llm`, asks it for one answer.
        """
        return self._services.chat()

    @property
    def store(self) -> Any:
        """The gateway's own store; None where nothing is kept."""
        return self._services.store

    @property
    def documents(self) -> Any:
        """The verbs about documents; None where there are none."""
        return self._services.documents

    @property
    def prompts(self) -> Any:
        """The verbs about prompts; None where there are none."""
        return self._services.prompts

    def may(self, right: str) -> bool:
        """Whether the caller has a right: `manage`, `internal`, `approve`."""
        return self._services.may(self.caller, right)

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the work is; also extends the deadline of the call."""
        if self._sink is not None:
            params: Json = {"progress": progress, "total": total, "message": message}
            await self._sink.progress(
                {key: value for key, value in params.items() if value is not None}
            )

    async def log(self, level: str, data: object, *, logger: str | None = None) -> None:
        """Send the client a message: `debug info notice warning error critical alert emergency`."""
        if self._sink is not None:
            params: Json = {"level": level, "data": to_jsonable_python(data, fallback=str)}
            await self._sink.log(params if logger is None else {**params, "logger": logger})

    async def ask(self, method: str, params: Json) -> Json:
        """Ask the client (`elicitation/create`, `sampling/createMessage`, `roots/list`).

        Raises:
            CannotAskError: The client cannot be asked this.
            RpcError: The client answered with an error.
        """
        if self._sink is None:
            raise CannotAskError("Nobody can be asked: the call was made without a client.")
        return await self._sink.ask(method, params)


def is_context(hint: object) -> bool:
    """Whether a parameter annotated so gets the context: `ToolContext`, or `ToolContext | None`."""
    return hint is ToolContext or ToolContext in get_args(hint)


def context_of_call(sink: CallSink | None, services: ToolServices | None = None) -> ToolContext:
    """What a tool may use in the call that is being made."""
    actor = _actor.get() or _CallScope(caller=Caller(), peer=None)
    return ToolContext(caller=actor.caller, peer=actor.peer, sink=sink, services=services)


class FunctionTool:
    """A function and what clients see of it."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        required: Sequence[str] = (),
    ) -> None:
        self.function = function
        self._required = tuple(required)
        self.name = name or function.__name__
        self._title = title
        self._description = description
        self._annotations = dict(annotations or {})
        self._meta = dict(meta or {})

    @cached_property
    def definition(self) -> Json:
        """As `tools/list` shows it.

        Raises:
            BrokenPluginError: An annotation cannot be described as JSON.
        """
        summary, _ = _split_docstring(inspect.getdoc(self.function) or "")
        definition: Json = {"name": self.name}
        if self._title:
            definition["title"] = self._title
        definition["description"] = self._description or summary
        definition["inputSchema"] = _input_schema(self._model, self._required)
        if self._output_schema is not None:
            definition["outputSchema"] = self._output_schema
        if self._annotations:
            definition["annotations"] = self._annotations
        if self._meta:
            definition["_meta"] = self._meta
        return definition

    async def call(self, arguments: Json, context: ToolContext) -> Json:
        """Run the function; the `tools/call` result, with `isError` when it went wrong."""
        try:
            arguments_model = self._model.model_validate(arguments)
        except ValidationError as error:
            return _failure(_explain(self.name, error))
        values = {
            alias: getattr(arguments_model, field)
            for field, alias in self._fields.items()
            if field in arguments_model.model_fields_set
        }
        if self._context_name is not None:
            values[self._context_name] = context
        try:
            return self._as_result(await _run(self.function, values))
        except (RpcError, CannotAskError):
            raise
        except Exception as error:  # what a tool of a user raises is the answer of that tool
            log.warning("tool failed", extra={"tool": self.name}, exc_info=True)
            return _failure(str(error) or type(error).__name__)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self.function, include_extras=True)
        except NameError as error:
            raise self._broken(f"{error}") from error

    @cached_property
    def _context_name(self) -> str | None:
        return next((name for name, hint in self._hints.items() if is_context(hint)), None)

    @cached_property
    def _fields(self) -> dict[str, str]:
        """Field of the model to parameter; fields are numbered, so any parameter name is good."""
        names = [name for name in self._parameters if name != self._context_name]
        return {f"p{number}": name for number, name in enumerate(names)}

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        parameters = inspect.signature(self.function).parameters
        for parameter in parameters.values():
            if parameter.kind in {parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY}:
                raise self._broken(f"{parameter.name} cannot be passed by name")
        return {
            name: parameter
            for name, parameter in parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        }

    @cached_property
    def _model(self) -> type[BaseModel]:
        _, notes = _split_docstring(inspect.getdoc(self.function) or "")
        fields: dict[str, Any] = {}
        for field_name, name in self._fields.items():
            default = self._parameters[name].default
            extra: dict[str, Any] = {"alias": name, "title": name}
            if name in notes:
                extra["description"] = notes[name]
            info: FieldInfo = Field(
                **({} if default is inspect.Parameter.empty else {"default": default}), **extra
            )
            fields[field_name] = (self._hints.get(name, Any), info)
        try:
            return create_model(
                self.name, __config__=ConfigDict(extra="forbid", title=self.name), **fields
            )
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise self._broken(str(error).partition("\n")[0]) from error

    @cached_property
    def _output_schema(self) -> Json | None:
        hint = self._hints.get("return")
        if hint is None or hint is Any:
            return None
        try:
            schema = TypeAdapter(hint).json_schema(mode="serialization")
        except PydanticUserError:
            return None
        return schema if schema.get("type") == "object" and hint is not dict else None

    def _as_result(self, value: object) -> Json:
        if value is None:
            return {"content": [], "isError": False}
        if isinstance(value, str):
            return {"content": [_text(value)], "isError": False}
        plain: object = to_jsonable_python(value, by_alias=True, fallback=str)
        if _is_result(plain):
            return {"isError": False, **cast("Json", plain)}
        result: Json = {"content": [_text(write_json(plain).decode())], "isError": False}
        if isinstance(plain, dict):
            result["structuredContent"] = plain
        return result

    def _broken(self, why: str) -> BrokenPluginError:
        return BrokenPluginError(
            f"The tool {self.name!r} cannot be described: {why}.",
            allowed="Parameters need names, and annotations that pydantic can describe as JSON.",
            hint=f"Correct {self.function.__module__}.{self.function.__qualname__}.",
        )


@overload
def tool(function: FunctionT, /) -> FunctionT: ...


@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    required: Sequence[str] = (),
) -> Callable[[FunctionT], FunctionT]: ...


def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    required: Sequence[str] = (),
) -> Any:
    """Make a function a tool; the function itself stays as it is.

    Name, description and schema come from the function: its name, its docstring with a Google
    section `Args:`, its annotations. A plain function runs in a thread.

    Args:
        function: The function, when used without brackets.
        name: Name of the tool instead of the function's.
        title: Name for people.
        description: Description instead of the docstring's.
        annotations: Tool annotations of the protocol, such as `{"readOnlyHint": True}`.
        meta: Members of `_meta`, such as `{"toolgate/internal": True}`: the tool is part of others
            and hidden from who has not the right `internal`.
        required: Parameters that the schema demands although they have a default: the function
            says itself, in its own words, that one is missing.
    """

    def mark(target: FunctionT) -> FunctionT:
        setattr(
            target,
            _MARK,
            FunctionTool(
                target,
                name=name,
                title=title,
                description=description,
                annotations=annotations,
                meta=meta,
                required=required,
            ),
        )
        return target

    return mark if function is None else mark(function)


def tools_of(target: object) -> list[FunctionTool]:
    """The tools of a function, of a list of functions, or of a module; empty if there are none."""
    marked = getattr(target, _MARK, None)
    if isinstance(marked, FunctionTool):
        return [marked]
    parts: Sequence[object] = ()
    if inspect.ismodule(target):
        parts = list(vars(target).values())
    elif isinstance(target, list | tuple):
        parts = cast("Sequence[object]", target)
    marks = [getattr(part, _MARK, None) for part in parts]
    by_name = {mark.name: mark for mark in marks if isinstance(mark, FunctionTool)}
    return list(by_name.values())


class FunctionWire:
    """A wire to functions of this process."""

    def __init__(
        self, name: str, tools: Sequence[FunctionTool], services: ToolServices | None = None
    ) -> None:
        self._name = name
        self._tools = {tool.name: tool for tool in tools}
        self._services = services
        self._running: set[asyncio.Timeout] = set()
        self._tokens = count(1)
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """None: there is no child."""
        return None

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """Empty: there is no child."""
        return ()

    async def open(self, events: WireEvents) -> None:  # noqa: ARG002 -- contract
        """Nothing to open; a tool that cannot be described fails here and not in a listing."""
        for tool in self._tools.values():
            _ = tool.definition

    async def request(
        self,
        method: str,
        params: Json,
        *,
        headers: Mapping[str, str],  # noqa: ARG002 -- contract
        sink: CallSink | None = None,
        progress: bool = False,
    ) -> Json:
        """Answer in the task of the caller."""
        if self._ended.is_set():
            raise ConnectionLostError("The connection was closed.", sent=False)
        abort = asyncio.timeout(None)  # `aclose` lets it run out
        self._running.add(abort)
        try:
            async with abort:
                return await self._answer(method, params, sink, progress=progress)
        except TimeoutError:
            if not abort.expired():
                raise
            raise ConnectionLostError("The connection was closed.", sent=True) from None
        finally:
            self._running.discard(abort)

    async def notify(self, method: str, params: Json, *, headers: Mapping[str, str]) -> None:
        """Nothing that a client could announce matters to functions."""

    def begin_session(self, version: str) -> None:
        """Nothing to do: functions send nothing unasked."""

    async def closed(self) -> str:
        """Wait until `aclose`; nothing else ends it."""
        await self._ended.wait()
        return "The connection was closed."

    async def aclose(self) -> None:
        """End what runs."""
        self._ended.set()
        started_at = asyncio.get_running_loop().time()
        for abort in self._running:
            if abort.when() is None:
                abort.reschedule(started_at)

    async def _answer(
        self, method: str, params: Json, sink: CallSink | None, *, progress: bool
    ) -> Json:
        match method:
            case "initialize":
                version: object = params.get("protocolVersion")
                return {
                    "protocolVersion": version if version in _VERSIONS else LEGACY_VERSION,
                    "capabilities": {"tools": {}, "logging": {}},
                    "serverInfo": {"name": self._name, "version": toolgate.__version__},
                }
            case "ping" | "logging/setLevel":
                return {}
            case "tools/list":
                return {"tools": [dict(tool.definition) for tool in self._tools.values()]}
            case "tools/call":
                return await self._call(params, self._numbered(sink, progress=progress))
            case _:
                raise RpcError(_METHOD_NOT_FOUND, "Method not found")

    def _numbered(self, sink: CallSink | None, *, progress: bool) -> CallSink | None:
        return _NumberedSink.over(sink, self._tokens, progress=progress)

    async def _call(self, params: Json, sink: CallSink | None) -> Json:
        name: object = params.get("name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise RpcError(_INVALID_PARAMS, f"Unknown tool: {name}")
        context = context_of_call(sink, self._services)
        arguments: object = params.get("arguments")
        try:
            return await tool.call(
                cast("Json", arguments) if isinstance(arguments, dict) else {}, context
            )
        except ToolgateError as error:
            if isinstance(error, RpcError | CannotAskError):
                raise
            raise InvalidAnswerError(str(error)) from error


class _NumberedSink:
    """Progress with the token that a server would send back, or none if it was not asked for."""

    def __init__(self, sink: CallSink, token: int | None) -> None:
        self._sink = sink
        self._token = token

    @classmethod
    def over(
        cls, sink: CallSink | None, tokens: Iterator[int], *, progress: bool
    ) -> "_NumberedSink | None":
        return None if sink is None else cls(sink, next(tokens) if progress else None)

    async def progress(self, params: Json) -> None:
        if self._token is not None:
            await self._sink.progress({"progressToken": self._token, **params})

    async def log(self, params: Json) -> None:
        await self._sink.log(params)

    async def ask(self, method: str, params: Json) -> Json:
        return await self._sink.ask(method, params)


async def _run(function: Callable[..., Any], values: dict[str, Any]) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(**values)
    return await anyio.to_thread.run_sync(partial(function, **values), abandon_on_cancel=True)


def _is_result(plain: object) -> bool:
    """Whether a function gave a whole `tools/call` result: content blocks and all."""
    if not isinstance(plain, dict):
        return False
    content: object = cast("Json", plain).get("content")
    if not isinstance(content, list):
        return False
    blocks = cast("list[object]", content)
    return all(isinstance(block, dict) and "type" in block for block in blocks)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _failure(text: str) -> Json:
    return {"content": [_text(text)], "isError": True}


def _explain(name: str, error: ValidationError) -> str:
    lines = [f"The arguments of {name} do not fit:"]
    for fault in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in fault["loc"]) or "arguments"
        lines.append(f"- {where}: {fault['msg']}")
    return "\n".join(lines)


def _input_schema(model: type[BaseModel], required: Sequence[str]) -> Json:
    schema = model.model_json_schema(by_alias=True)
    schema.pop("title", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    for name in required:
        schema.get("properties", {}).get(name, {}).pop("default", None)
    if demanded := [*schema.get("required", ()), *required]:
        schema["required"] = demanded
    return {"type": "object", "properties": {}, **schema}


def _split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description without its sections, and the notes on parameters under `Args:`."""
    head, _, sections = text.partition("\nArgs:\n")
    description = re.split(r"\n(?:Returns|Raises|Yields|Example|Examples|Note):\n", head)[0].strip()
    notes: dict[str, str] = {}
    name = ""
    for line in sections.splitlines():
        if line and not line.startswith(" "):
            break
        if match := re.match(r" {2,4}(\w+)\s*(?:\([^)]*\))?:\s*(.*)", line):
            name = match[1]
            notes[name] = match[2].strip()
        elif name and line.strip():
            notes[name] = f"{notes[name]} {line.strip()}".strip()
    return description, notes
