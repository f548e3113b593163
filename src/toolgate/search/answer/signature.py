"""The parameters of a tool in one line, from which a model can write a call.

    create_issue(owner, repo, title, body?, labels?: string[], state?: "open"|"closed")

Required parameters come first, `?` marks the others, and a parameter without a type is a plain
string. Any schema that a server sends gives a line; nothing raises.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolgate.types import Json

_DEPTH = 3
"""Most levels of nested objects in a signature; chosen."""
_NODES = 400
"""Most schemas visited in all; the rest is `…`; chosen."""
_LEVELS = 20
"""Most levels of nested schemas, including arrays and alternatives; chosen."""
_ENUM_CHARS = 72
"""Most characters of the allowed values of a parameter; chosen."""
_NAMES = {"integer": "int", "boolean": "bool"}
_FORMATS = {"date", "date-time", "time", "duration", "email", "uri", "uuid"}
_PLAIN_NAME = re.compile(r"[^\W\d][\w.\-$\[\]@]{0,63}")


def signature(name: str, schema: object, *, max_chars: int = 400) -> str:
    """Return the call of a tool in one line of at most about `max_chars` characters.

    Args:
        name: The tool's name, used unchanged.
        schema: Its input schema, any JSON value.
        max_chars: Longest list of parameters; optional ones are dropped first and counted.
    """
    reader = _SignatureReader(schema)
    properties, required = reader.properties(schema, ())
    parts: list[str] = []
    length = 0
    for key in _ordered(properties, required):
        written = _name(key) if key in required else f"{_name(key)}?"
        kind = reader.kind(properties[key], (), 1)
        part = written if kind == "string" else f"{written}: {kind}"
        # A name without its type is better than no name at all.
        if length + len(part) > max_chars:
            part = f"{written}: …"
        if length + len(part) > max_chars:
            parts.append(f"…{len(properties) - len(parts)} more")
            break
        parts.append(part)
        # Two more for the comma and the space.
        length += len(part) + 2
    return f"{name}({', '.join(parts)})"


def shape(schema: object, *, max_chars: int = 160) -> str:
    """Return what a schema describes, such as `{id: int, title, labels?: string[]}`."""
    reader = _SignatureReader(schema)
    kind = reader.kind(schema, (), 0)
    return kind if len(kind) <= max_chars else f"{kind[: max_chars - 1]}…"


@dataclass
class _SignatureReader:
    """Reads one schema; counts down the schemas that it may still visit."""

    root: object
    nodes: int = _NODES
    level: int = 0

    def kind(self, schema: object, seen: tuple[str, ...], depth: int) -> str:
        """Return a type as a model reads it: `string`, `int`, `"a"|"b"`, `{a, b?: int}[]`."""
        self.nodes -= 1
        if self.nodes < 0 or self.level > _LEVELS:
            return "…"
        self.level += 1
        try:
            return self._kind(schema, seen, depth)
        finally:
            self.level -= 1

    def _kind(self, schema: object, seen: tuple[str, ...], depth: int) -> str:
        if not isinstance(schema, dict):
            return "any" if schema is True else "never" if schema is False else "string"
        node = cast("Json", schema)
        if isinstance(ref := node.get("$ref"), str):
            # A schema that refers to itself is represented by its name, as is a long chain of
            # references.
            if ref in seen or len(seen) > 8:
                return _name(ref.rsplit("/", 1)[-1])[:40] or "any"
            target = _resolve(self.root, ref)
            if target is None:
                return "any"
            return self.kind(target, (*seen, ref), depth)
        if "const" in node:
            return _literal(node["const"])
        if isinstance(values := node.get("enum"), list) and values:
            return _choice(cast("list[Any]", values))
        for word in ("anyOf", "oneOf"):
            if isinstance(several := node.get(word), list) and several:
                return self._either(cast("list[Any]", several), seen, depth)
        kind = node.get("type")
        if isinstance(kind, list):
            return self._either(
                [{**node, "type": kind_name} for kind_name in cast("list[Any]", kind)[:6]],
                seen,
                depth,
            )
        if kind == "array" or (kind is None and ("items" in node or "prefixItems" in node)):
            return self._array(node, seen, depth)
        if kind == "object" or (kind is None and ("properties" in node or "allOf" in node)):
            return self._object(node, seen, depth)
        if kind == "string":
            text_format = node.get("format")
            return (
                text_format
                if isinstance(text_format, str) and text_format in _FORMATS
                else "string"
            )
        return _NAMES.get(kind, _name(kind)[:20]) if isinstance(kind, str) else "any"

    def properties(self, schema: object, seen: tuple[str, ...]) -> tuple[Json, set[str]]:
        """Return the members of an object and the names of the required ones, including `allOf`."""
        self.nodes -= 1
        if not isinstance(schema, dict) or len(seen) > 8 or self.nodes < 0:
            return {}, set()
        node = cast("Json", schema)
        members: Json = {}
        required: set[str] = set()
        if isinstance(ref := node.get("$ref"), str) and ref not in seen:
            members, required = self.properties(_resolve(self.root, ref), (*seen, ref))
        if isinstance(parts := node.get("allOf"), list):
            for part in cast("list[Any]", parts)[:20]:
                # The empty reference only counts the level, so that nested `allOf` ends as well.
                more, needed = self.properties(part, (*seen, ""))
                members, required = {**members, **more}, required | needed
        if isinstance(direct := node.get("properties"), dict):
            members = {**members, **cast("Json", direct)}
        if isinstance(needed := node.get("required"), list):
            names = cast("list[object]", needed)
            required = required | {name for name in names if isinstance(name, str)}
        return members, required

    def _either(self, schemas: Sequence[object], seen: tuple[str, ...], depth: int) -> str:
        # Six alternatives show what kind of value is meant; chosen.
        kinds = dict.fromkeys(self.kind(schema, seen, depth) for schema in schemas[:6])
        # Next to other types, `null` is noise to a model that writes a call.
        several = [kind for kind in kinds if kind != "null"] or ["null"]
        return "|".join(several)

    def _array(self, node: Json, seen: tuple[str, ...], depth: int) -> str:
        if isinstance(positions := node.get("prefixItems"), list) and positions:
            inner = [self.kind(item, seen, depth) for item in cast("list[Any]", positions)[:6]]
            return f"[{', '.join(inner)}]"
        items: object = node.get("items", True)
        kind = "any" if isinstance(items, list) else self.kind(items, seen, depth)
        return f"({kind})[]" if "|" in kind and not kind.startswith("{") else f"{kind}[]"

    def _object(self, node: Json, seen: tuple[str, ...], depth: int) -> str:
        members, required = self.properties(node, seen)
        if not members:
            extra = node.get("additionalProperties")
            if isinstance(extra, dict) and extra and depth < _DEPTH:
                return f"{{*: {self.kind(cast('Json', extra), seen, depth + 1)}}}"
            return "object"
        if depth >= _DEPTH:
            return "{…}"
        parts: list[str] = []
        ordered = _ordered(members, required)
        for key in ordered[:12]:
            kind = self.kind(members[key], seen, depth + 1)
            mark = "" if key in required else "?"
            parts.append(f"{_name(key)}{mark}" + ("" if kind == "string" else f": {kind}"))
        if len(ordered) > len(parts):
            parts.append("…")
        return f"{{{', '.join(parts)}}}"


def _ordered(members: Json, required: set[str]) -> list[str]:
    """Sort required members first, otherwise in the order of the schema."""
    return sorted(members, key=lambda name: name not in required)


def _resolve(root: object, ref: str) -> object:
    """Return the target of a reference within the schema; None for other references."""
    # References to other documents are never followed: a schema must not make the gateway fetch.
    if not ref.startswith("#") or len(ref) > 500:
        return None
    target = root
    for step in ref[1:].split("/")[1:]:
        # The escapes of JSON Pointer (RFC 6901). `~0` comes last, or `~01` would become `/`.
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            target = cast("Mapping[str, object]", target).get(key)
        elif isinstance(target, list) and key.isdecimal() and len(key) < 6:
            several = cast("list[object]", target)
            target = several[int(key)] if int(key) < len(several) else None
        else:
            return None
    return target


def _choice(values: Sequence[Any]) -> str:
    literals: list[str] = []
    for value in values:
        literal = _literal(value)
        if literals and sum(map(len, literals)) + len(literals) + len(literal) > _ENUM_CHARS:
            return f"{'|'.join(literals)}|…{len(values) - len(literals)} more"
        literals.append(literal)
    return "|".join(literals)


def _literal(value: object) -> str:
    if isinstance(value, dict | list):
        return "object" if isinstance(value, dict) else "array"
    if isinstance(value, int) and abs(value) > 10**18:
        return "int"  # Python refuses to write integers of thousands of digits
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f'{text[:38]}…"'


def _name(key: str) -> str:
    """Return a parameter's name, quoted if it could be misread."""
    if _PLAIN_NAME.fullmatch(key):
        return key
    return json.dumps(key if len(key) <= 64 else f"{key[:63]}…", ensure_ascii=True)
