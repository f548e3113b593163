"""A rules text with variables in the form `{{NAME}}`."""

import re
from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")
_BEGUN: Final = re.compile(r"\{\{([A-Z][A-Z0-9_]*)(?![A-Za-z0-9_}])|\{\{([A-Z][A-Z0-9_]*)\}(?!\})")


class Template:
    """A text whose variables are found once and filled in often.

    Only `{{NAME}}` is a variable, without blanks; other braces, as in code, have no meaning.
    Variables in values are not replaced.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = _VARIABLE.split(text)
        """Text, name, text, name, …, text."""
        self.names: frozenset[str] = frozenset(self._parts[1::2])
        """The variables in it."""

    @property
    def unclosed(self) -> tuple[int, ...]:
        """Return the numbers of lines with an unclosed variable, starting at 1."""
        return tuple(
            number for number, line in enumerate(self.text.splitlines(), 1) if _BEGUN.search(line)
        )

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the text with variables replaced by values; unknown ones are left in place."""
        parts = self._parts.copy()
        for at in range(1, len(parts), 2):
            name = parts[at]
            parts[at] = values.get(name, f"{{{{{name}}}}}")
        return "".join(parts)

    def unknown(self, values: Mapping[str, object]) -> tuple[str, ...]:
        """Return the variables that have no value, in the order of the text."""
        return tuple(name for name in dict.fromkeys(self._parts[1::2]) if name not in values)
