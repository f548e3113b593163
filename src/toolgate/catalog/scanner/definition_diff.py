"""The difference between two definitions of a tool, for a person who approves the change."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolgate.base import json_text
from toolgate.types import Json, json_object

# Lines of a difference that are shown: nobody reads more before deciding (chosen).
_MOST_LINES: Final = 200


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference in one place."""

    where: str
    """Path in the definition: `description`, `inputSchema.properties.to`."""

    kind: str
    """`added`, `removed` or `changed`."""

    before: str = ""
    """The old text; JSON if it is not a string."""

    after: str = ""
    """The new text."""

    def lines(self) -> list[str]:
        """Return lines that begin with `-` or `+`; long texts are compared line by line."""
        old, new = self.before.splitlines(), self.after.splitlines()
        if not old or not new:
            return [*(f"- {line}" for line in old), *(f"+ {line}" for line in new)][:_MOST_LINES]
        compared = difflib.ndiff(old, new)
        return [line for line in compared if line[:2] in ("- ", "+ ")][:_MOST_LINES]


def differences(before: Json, after: Json) -> tuple[Difference, ...]:
    """Return every difference between two definitions, in the order of the new one."""
    return tuple(_compare("", before, after))


def new_parameters(before: Json, after: Json) -> tuple[str, ...]:
    """Return the names of parameters that a tool did not have before."""
    old = json_object(json_object(before.get("inputSchema")).get("properties"))
    new = json_object(json_object(after.get("inputSchema")).get("properties"))
    return tuple(name for name in new if name not in old)


def _compare(where: str, before: object, after: object) -> Iterator[Difference]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        old, new = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
        for key in [*new, *(key for key in old if key not in new)]:
            path = f"{where}.{key}" if where else key
            if key not in old:
                yield Difference(where=path, kind="added", after=_text(new[key]))
            elif key not in new:
                yield Difference(where=path, kind="removed", before=_text(old[key]))
            else:
                yield from _compare(path, old[key], new[key])
        return
    before_text, after_text = _text(cast("object", before)), _text(after)
    if before_text != after_text:
        yield Difference(where=where, kind="changed", before=before_text, after=after_text)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json_text.dumps(value).decode()
