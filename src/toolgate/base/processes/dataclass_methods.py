"""Compiles the methods of dataclasses when they are called, which makes imports faster."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["compile_on_first_call"]

_COMPILER = "_create_fn"
"""Function of the standard library that compiles a method; it is called for every method of a
class, and does not exist from Python 3.13."""


def compile_on_first_call() -> None:
    """Have dataclasses that are defined from now on compile a method only when it is called.

    Python 3.11 and 3.12 compile six methods for every frozen dataclass, which takes a fifth of
    the CPU time of the gateway's start; most of the 2,000 methods are never called. `__init__` is
    compiled at once, since libraries read its signature. Python 3.13 compiles all methods of a
    class together: https://github.com/python/cpython/pull/110851. This can go with the support
    for 3.12.
    """
    compile_now: Callable[..., Any] | None = getattr(dataclasses, _COMPILER, None)
    if compile_now is None or compile_now.__module__ == __name__:
        return

    def create(name: str, args: Sequence[str], body: Sequence[str], **names: Any) -> Any:
        if name == "__init__":
            return compile_now(name, args, body, **names)
        compiled: Callable[..., Any] | None = None

        def method(self: object, *values: object) -> object:
            nonlocal compiled
            compiled = call = compiled or compile_now(name, args, body, **names)
            return call(self, *values)

        method.__name__ = name
        return method

    setattr(dataclasses, _COMPILER, create)
