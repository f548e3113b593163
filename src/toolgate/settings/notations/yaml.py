"""The YAML of Goose and Continue: values, and their positions in the text."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import yaml

from toolgate.settings.notations.jsonc import TextSpan

_CORE_SCHEMA = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
"""Patterns of plain values that are not strings, and their first characters: the core schema of
YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema), which both clients use. In YAML 1.1,
which the library uses, `no`, `on` and `12:30` are not strings either. Numbers such as 007 remain
strings."""

_REPLACED = ("bool", "int", "float", "timestamp")


class _CoreLoader(yaml.SafeLoader):
    """Reads plain values by the core schema of YAML 1.2."""


def _tag(name: str) -> str:
    return f"tag:yaml.org,2002:{name}"


_CoreLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in map(_tag, _REPLACED)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name, (_pattern, _first) in _CORE_SCHEMA.items():
    cast("Any", _CoreLoader).add_implicit_resolver(
        _tag(_name), re.compile(f"^(?:{_pattern})$"), list(_first)
    )


def parse(text: str) -> object:
    """Parse a text; an empty one is an empty object.

    Raises:
        ValueError: `json.JSONDecodeError` with its position.
    """
    try:
        value: object = yaml.load(text, _CoreLoader)  # noqa: S506 - a loader of plain values
    except yaml.YAMLError as error:
        mark = cast("Any", getattr(error, "problem_mark", None))
        reason = str(getattr(error, "problem", "") or error)
        raise json.JSONDecodeError(reason, text, mark.index if mark else 0) from error
    return {} if value is None else value


def spans(text: str) -> Mapping[tuple[str | int, ...], TextSpan]:
    """Return the position of each value of a valid text, by path.

    Objects of a list that have a `name`, such as Continue's servers, can also be found under it.
    """
    compose = cast("Any", yaml).compose
    root = cast("yaml.Node | None", compose(text, _CoreLoader))
    return dict(_walk(root, (), text)) if root is not None else {}


def _walk(
    node: yaml.Node, path: tuple[str | int, ...], text: str, key_start: int | None = None
) -> Iterator[tuple[tuple[str | int, ...], TextSpan]]:
    start = int(node.start_mark.index)
    begins = start if key_start is None else key_start
    yield path, TextSpan(begins, start, _end(node, text))
    if isinstance(node, yaml.MappingNode):
        for key, value in _pairs(node):
            yield from _walk(value, (*path, str(key.value)), text, int(key.start_mark.index))
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(cast("list[yaml.Node]", node.value)):
            yield from _walk(item, (*path, index), text)
            names = _pairs(item) if isinstance(item, yaml.MappingNode) else []
            for key, value in names:
                if key.value == "name":
                    yield from _walk(item, (*path, str(value.value)), text)


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    return cast("list[tuple[yaml.Node, yaml.Node]]", node.value)


def _end(node: yaml.Node, text: str) -> int:
    """Return the index after a value; PyYAML includes comments after a block in the block."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, yaml.MappingNode) else last, text)
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    return start + len(text[start:end].rstrip())
