"""The routes that a page module exports."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.responses import Response

from toolgate.console.request import Visit

__all__ = ["Handler", "Route"]

Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]
"""Answers a request for a page."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """What is answered at a path."""

    path: str
    """Below the address of the console, without a slash in front; empty: the first page."""

    show: Handler | None = None
    """Answers GET."""

    act: Handler | None = None
    """Answers POST. When it raises an error of ours, `show` answers with the error and what was
    typed, so that nothing is lost."""

    is_open: bool = False
    """Whether it is shown to who has not logged in."""

    is_long: bool = False
    """Whether it asks the store for so much that only each single question has to be answered
    soon."""

    acts_outside: bool = False
    """Whether POST may do something that the store knows nothing of, such as running a tool."""
