"""Replaces a large message by a small one, so that the SDK does not block while parsing it again.

The SDK needs the parts that decide where a request goes: the envelope, `_meta`, names and short
parameters. The full parameters are passed in the scope of the request.
"""

from itertools import islice
from typing import Any, cast

from toolgate.base.json_text import dumps
from toolgate.types import Json, json_object

FULL_PARAMS = "toolgate.params"
"""Key of the full parameters in a scope."""

_MOST_MEMBERS = 100
"""Largest number of parameters; chosen: a log line stays readable."""
_MOST_VALUES = 1_000
"""Largest number of values visited in a parameter; chosen: bounds time."""
_MOST_CHARACTERS = 64 * 2**10
"""Largest number of characters of a string that is retained; chosen: bounds memory."""


def summarize_body(message: Json) -> bytes:
    """Return the message without long strings, and with up to 1,000 values per parameter."""
    params = json_object(message.get("params"))
    names = ["_meta"] if "_meta" in params else []
    names += [name for name in islice(params, _MOST_MEMBERS) if name != "_meta"]
    skimmed: Json = {key: message[key] for key in ("jsonrpc", "id", "method") if key in message}
    skimmed["params"] = {
        name: _skimmed(params[name], [_MOST_VALUES])
        for name in names
        if len(name) <= _MOST_CHARACTERS
    }
    return dumps(skimmed)


def _skimmed(value: Any, room: list[int]) -> Any:
    """Return the value, truncated to the remaining room, which is reduced."""
    room[0] -= 1
    if isinstance(value, str):
        return value if len(value) <= _MOST_CHARACTERS else ""
    if isinstance(value, dict):
        return {
            key: _skimmed(item, room)
            for key, item in islice(cast("Json", value).items(), max(room[0], 0))
            if room[0] > 0 and len(key) <= _MOST_CHARACTERS
        }
    if isinstance(value, list):
        few = islice(cast("list[Any]", value), max(room[0], 0))
        return [_skimmed(item, room) for item in few if room[0] > 0]
    return value
