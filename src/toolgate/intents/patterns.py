"""Regular expressions that are compiled when they are first used.

Those of intent detection take a tenth of the CPU time of a gateway's start, and most gateways never
read a message.
"""

import re
from typing import cast
from weakref import WeakSet

HAN = "\u3400-\u9fff"
"""The range of Chinese characters, which names of tables follow without a blank."""


class _LatePattern:
    """Compiles an expression with the first use of one of its methods."""

    def __init__(self, expression: str, flags: int) -> None:
        self.pattern = expression
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        # Later uses find the method in the instance and do not come here.
        compiled = re.compile(self.pattern, self._flags)
        for method in ("finditer", "fullmatch", "match", "search", "split", "sub"):
            setattr(self, method, getattr(compiled, method))
        _uncompiled.discard(self)
        return getattr(compiled, name)


_uncompiled = WeakSet[_LatePattern]()  # those of packs go with their pack


def late_pattern(expression: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, but compiles the expression with the first use of a method."""
    pattern = _LatePattern(expression, flags)
    _uncompiled.add(pattern)
    return cast("re.Pattern[str]", pattern)


def are_compiled() -> bool:
    """Whether `compile_all` has nothing left to do."""
    return not _uncompiled


def compile_all() -> None:
    """Compile the expressions of modules and packs: 0.2 s of work, best done in a thread."""
    for pattern in tuple(_uncompiled):
        cast("re.Pattern[str]", pattern).search("")
