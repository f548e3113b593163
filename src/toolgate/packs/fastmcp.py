"""The FastMCP server for `register(mcp)` in a pack's modules, with two additions.

The only module that needs the library `fastmcp`; it is imported when a pack has `register`.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, get_type_hints

from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context

from toolgate.base.logs import take_over
from toolgate.upstream import ToolContext, context_in, is_context

AddServer = Callable[[str, dict[str, Any]], None]


class PackMCP(FastMCP[Any]):
    """FastMCP whose tools can receive Toolgate's context, and that can add servers."""

    def __init__(self, name: str, add_server: AddServer) -> None:
        super().__init__(name)
        self._add_server = add_server

    async def add_server(
        self, name: str, url: str, config: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        """Add an MCP server to the gateway; calls of its tools are checked like all others.

        Args:
            name: Name of the server.
            url: URL of the server.
            config: Further keys of `[server.NAME]`, such as `headers` or `timeout_s`.
            more: The same, as arguments.

        Raises:
            ToolgateError: A key is unknown, or a value is wrong.
        """
        self._add_server(name, {"url": url, **(config or {}), **more})

    def tool(self, name_or_fn: Any = None, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Register a tool as in FastMCP; a parameter of Toolgate's type `Context` is filled in."""
        if callable(name_or_fn):
            return super().tool(_with_context(name_or_fn), **options)
        decorator: Any = super().tool(name_or_fn, **options)

        def decorate(function: Callable[..., Any]) -> Any:
            return decorator(_with_context(function))

        return decorate

    def add_tool(self, tool: Any) -> Any:
        """Add a tool as in FastMCP; functions are handled as in `tool`."""
        is_plain = inspect.isfunction(tool) and not hasattr(tool, "__fastmcp__")
        return super().add_tool(_with_context(tool) if is_plain else tool)


class NoAuth:
    """The argument `auth` of `register(mcp, auth)`: Toolgate itself authenticates callers.

    Functions that are registered with it, such as with `@auth.get("/path")`, are returned
    unchanged.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def take(*_args: object, **_options: object) -> Callable[[Any], Any]:
            return _unchanged

        return take

    def __call__(self, *_args: object, **_options: object) -> None:
        """Do nothing."""


def _unchanged(function: Any) -> Any:
    return function


def new_server(name: str, add_server: AddServer) -> PackMCP:
    """Create a server for the modules of a pack."""
    take_over("fastmcp")
    return PackMCP(name, add_server)


def registration(register: Callable[..., Any], server: PackMCP) -> Callable[[], Any]:
    """Return the call of `register(mcp)` or `register(mcp, auth)`."""
    required = [
        parameter
        for parameter in inspect.signature(register).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    named = inspect.signature(register).parameters
    if len(required) >= 2:
        return partial(register, server, NoAuth())
    if "auth" in named and "auth" not in {parameter.name for parameter in required}:
        return partial(register, server, auth=NoAuth())
    return partial(register, server)


def _with_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide and fill in a function's context parameter; without one, return it unchanged."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return function  # the library reports the error
    name = next((name for name, hint in hints.items() if is_context(hint)), None)
    if name is None:
        return function
    signature = inspect.signature(function)
    visible = [parameter for parameter in signature.parameters.values() if parameter.name != name]

    wrapper: Any
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def asked(**values: Any) -> Any:
            return await function(**values, **{name: _context()})

        wrapper = asked
    else:

        @wraps(function)
        def answered(**values: Any) -> Any:
            return function(**values, **{name: _context()})

        wrapper = answered
    del wrapper.__wrapped__
    wrapper.__signature__ = signature.replace(parameters=visible)
    wrapper.__annotations__ = {key: hint for key, hint in hints.items() if key != name}
    return wrapper


def _context() -> ToolContext:
    request = get_context().request_context
    return context_in(None if request is None else request.meta)
