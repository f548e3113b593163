"""Applies overrides to tools: another name, other texts, fewer parameters."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from toolgate.base.names import fold
from toolgate.types import Json, ParameterOverride, ToolOverride, json_array, json_object

TAGS: Final = "toolgate/tags"
"""Member of a definition's `_meta` for the tags of an override."""

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
"""Python types of settings, by JSON Schema type."""

_COMBINED: Final = ("allOf", "anyOf", "oneOf")


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedTool:
    """A tool of a server as clients see it."""

    own_name: str
    """Its name on the server."""

    definition: Json
    """The definition, with the name for clients."""

    override: ToolOverride | None = None
    """The applied override; None: none."""


def offered_tools(
    server: str,
    definitions: Sequence[Json],
    overrides: Mapping[str, ToolOverride],
    quarantined: Collection[str] = (),
) -> tuple[list[OfferedTool], list[str]]:
    """Return the tools as clients see them, and messages about overrides that cannot be applied.

    A tool is left out if callers could otherwise send a parameter that its override hides or
    fixes, because the server has renamed the parameter.

    Args:
        server: Name of the server.
        definitions: Its tools as it sent them.
        overrides: By the tool's own name.
        quarantined: Names of further tools of the server that are quarantined.
    """
    own_names = [str(definition["name"]) for definition in definitions]
    problems = [
        f"[server.{server}.tools.{name}] overrides a tool that the server does not offer."
        for name in overrides
        if name not in own_names and name not in quarantined
    ]
    names, refused = _names(own_names, overrides, quarantined)
    problems += [
        f"Tool {name!r} is not renamed to {overrides[name].name!r}: another tool is called so."
        for name in refused
    ]
    tools: list[OfferedTool] = []
    for own_name, definition in zip(own_names, definitions, strict=True):
        override = overrides.get(own_name)
        if override is None:
            tools.append(OfferedTool(own_name=own_name, definition=definition))
            continue
        if override.hide:
            continue
        mistakes = _problems(own_name, definition, override)
        problems += [text for text, _ in mistakes]
        if any(is_fatal for _, is_fatal in mistakes):
            continue
        changed = {**_changed(definition, override), "name": names[own_name]}
        tools.append(OfferedTool(own_name=own_name, definition=changed, override=override))
    return tools, problems


def is_per_caller(value: object) -> bool:
    """Whether a value refers to data of the caller, `${user.NAME}`."""
    if isinstance(value, str):
        return "${user." in value
    if isinstance(value, Mapping):
        return any(map(is_per_caller, cast("Mapping[str, object]", value).values()))
    return isinstance(value, list) and any(map(is_per_caller, cast("list[object]", value)))


def _names(
    own_names: Sequence[str], overrides: Mapping[str, ToolOverride], reserved: Collection[str]
) -> tuple[Mapping[str, str], list[str]]:
    """Return the name of each tool for clients, by its own, and tools with refused names.

    No tool gets a name that the server itself uses: callers who know the server would call the
    wrong tool.
    """
    new_names = {
        name: overrides[name].name
        for name in own_names
        if name in overrides and overrides[name].name not in ("", name)
    }
    taken = Counter(map(fold, new_names.values()))
    used = {fold(name) for name in (*own_names, *reserved)}
    refused = [
        name
        for name, new in new_names.items()
        if taken[fold(new)] > 1 or (fold(new) in used and fold(new) != fold(name))
    ]
    names = {name: name for name in own_names}
    return names | {name: new for name, new in new_names.items() if name not in refused}, refused


def _problems(name: str, definition: Json, override: ToolOverride) -> list[tuple[str, bool]]:
    """Return what is wrong with a parameter override, and whether the tool must be left out."""
    schema = json_object(definition.get("inputSchema"))
    properties = json_object(schema.get("properties"))
    required = json_array(schema.get("required"))
    problems: list[tuple[str, bool]] = []
    for parameter, change in override.parameters.items():
        if parameter not in properties:
            names = ", ".join(list(properties)[:20]) or "none"
            left_out = " The tool is left out." if change.is_hidden else ""
            text = (
                f"The override of tool {name!r} names the parameter {parameter!r}, which the tool "
                f"does not have; it has: {names}.{left_out}"
            )
            problems.append((text, change.is_hidden))
        elif change.hide and change.value is change.default is None and parameter in required:
            text = (
                f"The override of tool {name!r} hides the parameter {parameter!r}, which the "
                "server requires, and gives no value. The tool is left out."
            )
            problems.append((text, True))
        else:
            described = json_object(properties[parameter])
            problems += [
                (f"The override of tool {name!r} sets {parameter!r} to {misfit}.", False)
                for value in (change.value, change.default)
                if (misfit := _misfit(described, value))
            ]
    return problems


def _misfit(schema: Json, value: object) -> str:
    """Return why a parameter does not accept a value, and what it accepts; empty: it may fit.

    Checks type and choices only: the server checks the rest of the schema.
    """
    if value is None or is_per_caller(value):
        return ""
    written = schema.get("type")
    kinds = [written] if isinstance(written, str) else [str(kind) for kind in json_array(written)]
    known = [kind for kind in kinds if kind in _TYPES]
    if known and not any(isinstance(value, _TYPES[kind]) for kind in known):
        return f"{type(value).__name__}; the tool takes {' or '.join(kinds)}"
    if isinstance(value, bool) and kinds and "boolean" not in kinds:
        return f"bool; the tool takes {' or '.join(kinds)}"
    choices = json_array(schema.get("enum"))
    if choices and value not in choices:
        return f"a value that is none of its choices: {', '.join(map(str, choices[:10]))}"
    return ""


def _changed(definition: Json, override: ToolOverride) -> Json:
    changed = dict(definition)
    if override.description:
        changed["description"] = override.description
    if override.tags:
        changed["_meta"] = {**json_object(definition.get("_meta")), TAGS: list(override.tags)}
    if override.parameters:
        schema = json_object(definition.get("inputSchema"))
        changed["inputSchema"] = _schema(schema, override.parameters)
    return changed


def _schema(schema: Json, parameters: Mapping[str, ParameterOverride]) -> Json:
    """Return the input schema without hidden parameters, and with overridden defaults."""
    properties = dict(json_object(schema.get("properties")))
    optional: set[str] = set()
    for name, change in parameters.items():
        if name not in properties:
            continue
        if change.is_hidden:
            del properties[name]
            optional.add(name)
            continue
        described = dict(json_object(properties[name]))
        if change.description:
            described["description"] = change.description
        if change.default is not None:
            optional.add(name)
            if is_per_caller(change.default):
                described.pop("default", None)
            else:
                described["default"] = change.default
        properties[name] = described
    return {**_not_requiring(schema, optional), "properties": properties}


def _not_requiring(schema: Json, names: set[str]) -> Json:
    """Return the schema without these names in `required`, also in its alternatives."""
    changed = dict(schema)
    if "required" in schema:
        changed["required"] = [n for n in json_array(schema["required"]) if n not in names]
    for word in _COMBINED:
        if word in schema:
            parts: list[Any] = json_array(schema[word])
            changed[word] = [
                _not_requiring(cast("Json", part), names) if isinstance(part, dict) else part
                for part in parts
            ]
    return changed
