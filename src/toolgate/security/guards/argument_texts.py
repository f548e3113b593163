"""Finds the texts in arguments and replaces them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import TypeAlias, cast

from toolgate.base import json_text
from toolgate.types import Json

Place: TypeAlias = tuple[str | int, ...]
"""Names and numbers that lead to a value in arguments."""

_JSON = re.compile(r"""\s*[\[{"]""")
"""The start of JSON that is not just a number."""

_MOST_DIGITS = 4_000
"""Digits of a number that Python reads as an integer: its limit is 4,300."""


def values_at(arguments: object, name: str) -> Iterator[object]:
    """Yield the arguments with a name, or with a path such as `options.path`, also in lists.

    Upper and lower case do not differ: some servers ignore it (Go's `encoding/json`).
    """
    if isinstance(arguments, list):
        for item in cast("list[object]", arguments):
            yield from values_at(item, name)
    if not isinstance(arguments, dict):
        return
    folded = name.casefold()
    for key, value in cast("Json", arguments).items():
        known = key.casefold()
        if known == folded:
            yield value
        elif folded.startswith(f"{known}."):
            yield from values_at(value, folded[len(known) + 1 :])


def unpacked(arguments: Json) -> tuple[Json, frozenset[Place]]:
    """Return arguments in which texts that are JSON are what they contain, and where those were.

    Many servers accept a list or an object as JSON in a text, such as those of the MCP SDK for
    Python.

    Raises:
        RecursionError: The JSON is nested too deeply.
    """
    places: set[Place] = set()
    return cast("Json", _unpacked(arguments, (), places)), frozenset(places)


def _unpacked(value: object, place: Place, places: set[Place]) -> object:
    if isinstance(value, str):
        if not _JSON.match(value):
            return value
        # `strict`: some servers accept line breaks in texts.
        try:
            inner: object = json.loads(value, strict=False, parse_int=_number)
        except ValueError:
            return value
        places.add(place)
        return _unpacked(inner, place, places)
    if isinstance(value, dict):
        items = cast("Json", value).items()
        return {name: _unpacked(item, (*place, name), places) for name, item in items}
    if isinstance(value, list):
        items = enumerate(cast("list[object]", value))
        return [_unpacked(item, (*place, number), places) for number, item in items]
    return value


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


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
