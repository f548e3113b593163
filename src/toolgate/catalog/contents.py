"""Prompts, resources, resource templates and skills of the servers, for searching.

Their keys differ from those of all tools: `server:prompt:NAME`, and `server:URI` for resources,
templates and skills. A skill is a resource with instructions for a task.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from toolgate.base import json_text
from toolgate.catalog.snapshot import CatalogEntry, Snapshot
from toolgate.errors import ArgumentError
from toolgate.types import Json, json_array, json_object

ContentKind: TypeAlias = Literal["prompt", "resource", "template", "skill"]
"""What searches find besides tools."""

_SKILL_FILE: Final = "SKILL.md"
"""File name of a skill: https://agentskills.io/specification."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """A prompt, resource, template or skill, with a definition like that of a tool."""

    key: str
    """`server:prompt:NAME` or `server:URI`."""

    kind: ContentKind
    """Its kind."""

    entry: CatalogEntry
    """Its entry in the catalog."""

    name: str
    """Its display name."""

    raw: bytes
    """`name`, `title?`, `description`, `kind` and `inputSchema` as JSON."""

    @property
    def server(self) -> str:
        """Its server."""
        return self.entry.server

    @property
    def digest(self) -> str:
        """A digest that changes with its definition."""
        return self.entry.digest

    @property
    def action(self) -> Literal["prompt", "read"]:
        """The permission that a caller needs."""
        return "prompt" if self.kind == "prompt" else "read"

    def uri(self, arguments: Json) -> str:
        """Return the URI to read on its server; for a template, with its variables filled in.

        Raises:
            ArgumentError: A variable is missing or unknown.
        """
        template = self.entry.name
        names = _variables(template) if self.kind == "template" else []
        for name in arguments:
            if name not in names:
                raise ArgumentError(
                    f"{self.key} has no argument {name[:60]!r}.",
                    allowed=f"Arguments: {', '.join(names) or 'none'}.",
                )
        missing = [name for name in names if not isinstance(arguments.get(name), str | int)]
        if missing:
            raise ArgumentError(
                f"{self.key} needs a text for {', '.join(missing)}.",
                allowed=f"Arguments: {', '.join(names)}.",
            )
        return _EXPRESSION.sub(lambda match: _expanded(match[1], match[2], arguments), template)


def contents_of(snapshot: Snapshot) -> Mapping[str, Content]:
    """Return all contents of a snapshot by key; a tool with such a key takes precedence."""
    return {
        content.key: content
        for content in _contents(snapshot)
        if snapshot.tool(content.key) is None
    }


def _contents(snapshot: Snapshot) -> Iterator[Content]:
    for entries in snapshot.servers.values():
        for entry in entries.prompts:
            arguments = json_array(entry.definition.get("arguments"))
            properties = {
                str(argument["name"]): argument
                for argument in map(json_object, arguments)
                if argument.get("name")
            }
            needed = [name for name, argument in properties.items() if argument.get("required")]
            yield _content(
                f"{entry.server}:prompt:{entry.name}", "prompt", entry, properties, needed
            )
        for entry in entries.resources:
            kind = "skill" if _is_skill(entry.name) else "resource"
            yield _content(entry.key, kind, entry, {}, [])
        for entry in entries.templates:
            names = _variables(entry.name)
            yield _content(entry.key, "template", entry, {name: {} for name in names}, names)


def _content(
    key: str,
    kind: ContentKind,
    entry: CatalogEntry,
    properties: Mapping[str, Json],
    needed: list[str],
) -> Content:
    definition = entry.definition
    name = entry.name if kind == "prompt" else str(definition.get("name") or "")
    if kind == "skill" and name in ("", _SKILL_FILE, entry.name):
        name = entry.name.removesuffix(f"/{_SKILL_FILE}").rpartition("/")[2]
    # Without a description, the URI says what it is about.
    description = definition.get("description") or ("" if kind == "prompt" else entry.name)
    schema = {
        "type": "object",
        "properties": {
            argument: {"type": "string", "description": str(given.get("description") or "")}
            for argument, given in properties.items()
        },
        "required": needed,
    }
    tool: Json = {
        "name": name,
        "kind": kind,
        "title": str(definition.get("title") or ""),
        "description": str(description),
        "inputSchema": schema,
    }
    return Content(
        key=key, kind=kind, entry=entry, name=name or entry.name, raw=json_text.dumps(tool)
    )


def _is_skill(uri: str) -> bool:
    return uri.startswith("skill://") or uri.endswith(f"/{_SKILL_FILE}")


# RFC 6570 (https://www.rfc-editor.org/rfc/rfc6570): an operator, and names with modifiers.
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_OPERATORS: Final[Mapping[str, tuple[str, str]]] = {
    "": ("", ","),
    "+": ("", ","),
    "#": ("#", ","),
    ".": (".", "."),
    "/": ("/", "/"),
    ";": (";", ";"),
    "?": ("?", "&"),
    "&": ("&", "&"),
}
"""Prefix of the first value, and separator of values, by operator."""
_PAIRS: Final = (";", "?", "&")
"""Operators that write `name=value`."""
_RESERVED: Final = ":/?#[]@!$&'()*+,;="


def _variables(template: str) -> list[str]:
    """Return the variables of a URI template, in order."""
    return list(
        dict.fromkeys(name for match in _EXPRESSION.finditer(template) for name in _names(match[2]))
    )


def _names(expression: str) -> list[str]:
    return [re.sub(r":\d+$|\*$", "", name) for name in expression.split(",") if name]


def _expanded(operator: str, expression: str, arguments: Json) -> str:
    first, between = _OPERATORS[operator]
    safe = _RESERVED if operator in ("+", "#") else ""
    values = [
        f"{name}={value}" if operator in _PAIRS else value
        for name in _names(expression)
        for value in [quote(str(arguments[name]), safe=safe)]
    ]
    return first + between.join(values)
