"""Typer apps for the modules of commands, whose functions may be async."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import anyio
import typer

F = TypeVar("F", bound=Callable[..., Any])

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
"""The option `--json`."""


class CommandApp(typer.Typer):
    """A command, or a group of commands; async functions run in an event loop of their own."""

    def __init__(self) -> None:
        super().__init__(no_args_is_help=True, add_completion=False)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Register a function as a command; see `typer.Typer.command`."""
        register = super().command(name, **options)

        def decorate(function: F) -> F:
            register(_run_to_end(function) if inspect.iscoroutinefunction(function) else function)
            return function

        return decorate


def _run_to_end(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(**values: Any) -> Any:
        return anyio.run(functools.partial(function, **values))

    return run
