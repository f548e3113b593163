"""Python functions as tools: `@tool`, and their form in `tools/list` and `tools/call`."""

import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar, cast, get_type_hints, overload

import anyio
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from toolgate.base.tool_results import failed_result
from toolgate.errors import (
    BrokenPluginError,
    CannotAskError,
    RpcError,
)
from toolgate.types import Json
from toolgate.upstream.json_text import write_json
from toolgate.upstream.python_tools.tool_context import ToolContext, is_context

log = logging.getLogger(__name__)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_MARK = "__toolgate_tool__"


class FunctionTool:
    """A function, and what clients see of it."""

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
        """Return the definition for `tools/list`.

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
        """Run the function; return the `tools/call` result, with `isError` if it failed."""
        try:
            arguments_model = self._model.model_validate(arguments)
        except ValidationError as error:
            return failed_result(_explain(self.name, error))
        values = {
            alias: getattr(arguments_model, field)
            for field, alias in self._fields.items()
            # Missing arguments are left out, so the function's default applies, not a copy of it.
            if field in arguments_model.model_fields_set
        }
        if self._context_name is not None:
            values[self._context_name] = context
        try:
            return self._as_result(await _run(self.function, values))
        # These are answers to the client, not failures of the tool.
        except (RpcError, CannotAskError):
            raise
        except Exception as error:  # what a tool of a user raises is the answer of that tool
            log.warning("tool failed", extra={"tool": self.name}, exc_info=True)
            return failed_result(str(error) or type(error).__name__)

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
        """Parameters by field of the model; fields are numbered, so any parameter name works."""
        names = [name for name in self._parameters if name != self._context_name]
        return {f"p{number}": name for number, name in enumerate(names)}

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        parameters = inspect.signature(self.function).parameters
        for parameter in parameters.values():
            # Arguments of a call have names, so these could never be passed.
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
            # A misspelled argument is an error that the model can fix; it is not silently ignored.
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
        # The protocol allows only objects; a plain `dict` says nothing about its members.
        return schema if schema.get("type") == "object" and hint is not dict else None

    def _as_result(self, value: object) -> Json:
        if value is None:
            return {"content": [], "isError": False}
        if isinstance(value, str):
            return {"content": [_text(value)], "isError": False}
        # What JSON cannot represent becomes text: a result is better than an error at this point.
        plain: object = to_jsonable_python(value, by_alias=True, fallback=str)
        if _is_question(plain):
            return cast("Json", plain)
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
    """Make a function a tool; the function itself stays unchanged.

    Name, description and schema are derived from the function: its name, its docstring with a
    Google-style section `Args:`, its annotations. A plain function runs in a thread.

    Args:
        function: The function, if used without brackets.
        name: Name of the tool instead of the function's.
        title: Name for people.
        description: Description instead of the docstring's.
        annotations: Tool annotations of the protocol, such as `{"readOnlyHint": True}`.
        meta: Members of `_meta`, such as `{"toolgate/internal": True}`: the tool is used by
            others and hidden from callers without the right `internal`.
        required: Parameters that the schema requires although they have a default: the function
            reports a missing one itself, in its own words.
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
    """The tools of a function, a list of functions, or a module; empty if there are none."""
    marked = getattr(target, _MARK, None)
    if isinstance(marked, FunctionTool):
        return [marked]
    parts: Sequence[object] = ()
    if inspect.ismodule(target):
        parts = list(vars(target).values())
    elif isinstance(target, list | tuple):
        parts = cast("Sequence[object]", target)
    marks = [getattr(part, _MARK, None) for part in parts]
    # A function that a module imports under a second name is still a single tool.
    by_name = {mark.name: mark for mark in marks if isinstance(mark, FunctionTool)}
    return list(by_name.values())


async def _run(function: Callable[..., Any], values: dict[str, Any]) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(**values)
    # Abandoned, since a thread cannot be stopped and the call must not wait for it.
    return await anyio.to_thread.run_sync(partial(function, **values), abandon_on_cancel=True)


def _is_result(plain: object) -> bool:
    """Whether a function returned a complete `tools/call` result with content blocks."""
    if not isinstance(plain, dict):
        return False
    content: object = cast("Json", plain).get("content")
    if not isinstance(content, list):
        return False
    blocks = cast("list[object]", content)
    return all(isinstance(block, dict) and "type" in block for block in blocks)


def _is_question(plain: object) -> bool:
    """Whether a function returned a result that asks the client something."""
    return isinstance(plain, dict) and cast("Json", plain).get("resultType") == "input_required"


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


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
        # Titles repeat the parameter names and cost tokens.
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
