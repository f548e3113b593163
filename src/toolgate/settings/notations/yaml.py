"""The YAML of Goose and Continue: values, and their positions in the text."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import yaml

from toolgate.settings.notations.jsonc import TextSpan

__all__ = ["parse", "spans"]

_DATES = "tag:yaml.org,2002:timestamp"


class _PlainLoader(yaml.SafeLoader):
    """Reads dates as text, since entries of servers contain no dates."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _DATES]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(text: str) -> object:
    """Parse a text; an empty one is an empty object.

    Raises:
        ValueError: `json.JSONDecodeError` with its position.
    """
    try:
        value: object = yaml.load(text, _PlainLoader)  # noqa: S506 - a loader of plain values
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
    root = cast("yaml.Node | None", compose(text, _PlainLoader))
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
