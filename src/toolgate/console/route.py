"""The routes that a page module exports."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.responses import Response

from toolgate.console.request import PageRequest

Handler: TypeAlias = Callable[[PageRequest], Awaitable[Response]]
"""Handles a request for a page."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """The handlers of a path."""

    path: str
    """Relative to the console, without a leading slash; empty: the home page."""

    show: Handler | None = None
    """Handles GET."""

    act: Handler | None = None
    """Handles POST. If it raises a `ToolgateError`, `show` renders the page with the error and the
    submitted values, so that no input is lost."""

    is_open: bool = False
    """Whether it is available without a login."""

    is_long: bool = False
    """Whether it makes many queries, so that the deadline applies to each query instead of the
    page."""

    acts_outside: bool = False
    """Whether POST has effects outside the store, such as running a tool."""
