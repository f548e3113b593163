"""Typed functions from tool schemas, for type-checking programs."""

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from toolgate.base import json_text
from toolgate.models.sandboxes import HostFunction
from toolgate.types import Json, json_array, json_object

_MAX_DEPTH = 6
"""Levels of nested schemas with types; deeper values may be anything (chosen)."""
_MAX_TYPES = 60
"""Classes per tool (chosen)."""
_MAX_CHOICES = 40
"""Listed values of an enumeration (chosen)."""
_PLAIN: Mapping[str, str] = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}


def host_function(name: str, definition: Json, digest: str) -> HostFunction:
    """Return a tool as a function.

    Args:
        name: `module.function`.
        definition: The tool as its server listed it.
        digest: Hash of the definition; the same tool is converted once.
    """
    return _function(name, digest, json_text.dumps(definition))


def named_arguments(schema: Json, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Json:
    """The arguments of a call by name; positional ones follow the order of the parameters.

    Raises:
        ValueError: There are more than the tool has, or one is given twice.
    """
    names = _ordered(schema)
    if len(args) > len(names):
        raise ValueError(f"{len(args)} arguments without a name came; it has {len(names)}")
    arguments = dict(zip(names, args, strict=False))
    if twice := sorted(arguments.keys() & kwargs.keys()):
        raise ValueError(f"the argument {twice[0]!r} came twice")
    return arguments | dict(kwargs)


@lru_cache(maxsize=2048)
def _function(name: str, digest: str, raw: bytes) -> HostFunction:  # noqa: ARG001
    definition = json_object(json_text.loads(raw))
    schema = json_object(definition.get("inputSchema"))
    types = _Types(name.replace(".", "_"), schema)
    properties = json_object(schema.get("properties"))
    required = set(map(str, json_array(schema.get("required"))))
    parameters: list[str] = []
    is_open = schema.get("additionalProperties", True) is not False and not properties
    for parameter in _ordered(schema):
        if not parameter.isidentifier() or keyword.iskeyword(parameter) or parameter == "self":
            is_open = True
            continue
        kind = types.of(properties.get(parameter), parameter)
        default = "" if parameter in required else " = ..."
        parameters.append(f"{parameter}: {kind}{default}")
    if is_open:
        parameters.append("**others: Any")
    output = json_object(definition.get("outputSchema"))
    returns = "Any"
    if output:
        results = _Types(f"{name.replace('.', '_')}_result", output)
        returns = results.of(output, "")
        types.declared += results.declared
    return HostFunction(
        name=name.partition(".")[2],
        parameters=", ".join(parameters),
        returns=returns,
        types="\n".join(types.declared),
    )


def _ordered(schema: Json) -> list[str]:
    """Names of the parameters, required ones first."""
    properties = json_object(schema.get("properties"))
    required = [name for name in map(str, json_array(schema.get("required"))) if name in properties]
    return [*required, *(name for name in properties if name not in required)]


@dataclass
class _Types:
    """Writes the types of one schema; unsupported constructs become `Any`."""

    prefix: str
    root: Json
    declared: list[str] = field(default_factory=list[str])

    def of(self, schema: object, name: str, depth: int = 0) -> str:
        """The annotation of a value."""
        node = self._resolved(json_object(schema))
        if depth > _MAX_DEPTH or not node:
            return "Any"
        if choices := json_array(node.get("enum")) or ([node["const"]] if "const" in node else []):
            return _literal(choices)
        for word in ("anyOf", "oneOf"):
            if several := json_array(node.get(word)):
                return self._union([self.of(one, name, depth + 1) for one in several[:10]])
        kind = node.get("type")
        if isinstance(kind, list):
            kinds = json_array(node["type"])
            return self._union([self.of({**node, "type": one}, name, depth + 1) for one in kinds])
        if kind == "array":
            return f"list[{self.of(node.get('items'), f'{name}_item', depth + 1)}]"
        if kind == "object" or (kind is None and "properties" in node):
            return self._object(node, name, depth)
        return _PLAIN.get(str(kind), "Any")

    def _union(self, kinds: Sequence[str]) -> str:
        return "Any" if "Any" in kinds else " | ".join(dict.fromkeys(kinds))

    def _object(self, node: Json, name: str, depth: int) -> str:
        properties = json_object(node.get("properties"))
        is_open = isinstance(node.get("additionalProperties"), dict)
        if not properties or is_open or len(self.declared) >= _MAX_TYPES:
            return "dict[str, Any]"
        required = set(map(str, json_array(node.get("required"))))
        title = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        type_name = f"{self.prefix}_{title}_{len(self.declared)}"
        place = len(self.declared)
        self.declared.append("")
        members: list[str] = []
        for key, value in properties.items():
            kind = self.of(value, f"{name}_{key}", depth + 1)
            wrapped = kind if key in required else f"NotRequired[{kind}]"
            members.append(f"{json_text.dumps(key).decode()}: {wrapped}")
        # This form allows names that are not identifiers.
        self.declared[place] = f"{type_name} = TypedDict({type_name!r}, {{{', '.join(members)}}})"
        return type_name

    def _resolved(self, node: Json) -> Json:
        """The target of a reference within the schema; empty for circular references."""
        for _ in range(_MAX_DEPTH):
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            target: object = self.root
            for part in reference.removeprefix("#/").split("/"):
                target = json_object(target).get(part.replace("~1", "/").replace("~0", "~"))
            node = json_object(target)
        return {}


def _literal(values: Sequence[Any]) -> str:
    plain = all(isinstance(value, str | int | bool) or value is None for value in values)
    if not plain or len(values) > _MAX_CHOICES:
        return "str" if all(isinstance(value, str) for value in values) else "Any"
    return f"Literal[{', '.join(map(repr, values))}]"
