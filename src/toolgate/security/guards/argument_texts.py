"""Finds the texts in arguments and replaces them."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import cast

from toolgate.base import json_text
from toolgate.types import Json, json_object

__all__ = ["as_read", "is_deep", "texts_in", "value_at"]


def value_at(arguments: Json, name: str) -> object:
    """Return an argument by its name or by its path, such as `options.path`."""
    if name in arguments:
        return arguments[name]
    value: object = arguments
    for part in name.split("."):
        value = json_object(value).get(part)
    return value


def texts_in(value: object) -> Iterator[str]:
    """Yield every text in a value, including keys and numbers."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            table = cast("Json", item)
            yield from table
            waiting += table.values()
        elif isinstance(item, list):
            waiting += cast("list[object]", item)
        elif item is not None:
            yield json_text.dumps(item).decode()


def as_read(arguments: Json, readings_of: Callable[[str], list[str]]) -> Iterator[Json]:
    """Yield the arguments as sent, then as a server may interpret the texts in them."""
    yield arguments
    readings = {
        text: other for text in dict.fromkeys(_values(arguments)) if (other := readings_of(text))
    }
    for number in range(max(map(len, readings.values()), default=0)):
        at = {text: other[number] for text, other in readings.items() if number < len(other)}
        yield cast("Json", _replaced(arguments, at))


def _values(value: object) -> Iterator[str]:
    """Yield every text in a value, except keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from chain.from_iterable(map(_values, cast("Json", value).values()))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_values, cast("list[object]", value)))


def _replaced(value: object, texts: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, dict):
        return {name: _replaced(item, texts) for name, item in cast("Json", value).items()}
    if isinstance(value, list):
        return [_replaced(item, texts) for item in cast("list[object]", value)]
    return value


def is_deep(value: object, levels: int) -> bool:
    """Return whether a value is nested deeper than a number of levels."""
    layer = [value]
    for _ in range(levels + 1):
        inner: list[object] = []
        for item in layer:
            if isinstance(item, dict):
                inner += cast("Json", item).values()
            elif isinstance(item, list):
                inner += cast("list[object]", item)
        if not inner:
            return False
        layer = inner
    return True
