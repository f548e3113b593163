"""Toolgate: one MCP endpoint in front of all your MCP servers.

```python
from toolgate import Caller, DiscoverRequest, load, open_app

async with open_app(load(), wait_s=30) as app:
    request = DiscoverRequest(queries=("list files",))
    answer = await app.gateway.discovery.discover(Caller.local(), request)
```
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolgate.app.app import open_app
    from toolgate.errors import ToolgateError
    from toolgate.gateway.gateway import Gateway
    from toolgate.gateway.meta_tools import DiscoverRequest
    from toolgate.settings import Settings, load
    from toolgate.types import Caller
    from toolgate.upstream import ToolContext, tool
    from toolgate.upstream import ToolContext as Context

__all__ = [
    "Caller",
    "Context",
    "DiscoverRequest",
    "Gateway",
    "Settings",
    "ToolContext",
    "ToolgateError",
    "__version__",
    "load",
    "open_app",
    "tool",
]

__version__ = "0.1.0"

_FRONT = {
    "Caller": "toolgate.types:Caller",
    "Context": "toolgate.upstream:ToolContext",
    "DiscoverRequest": "toolgate.gateway.meta_tools:DiscoverRequest",
    "Gateway": "toolgate.gateway.gateway:Gateway",
    "Settings": "toolgate.settings:Settings",
    "ToolContext": "toolgate.upstream:ToolContext",
    "ToolgateError": "toolgate.errors:ToolgateError",
    "load": "toolgate.settings:load",
    "open_app": "toolgate.app.app:open_app",
    "tool": "toolgate.upstream:tool",
}


def __getattr__(name: str) -> object:
    """Load a name of the front door when it is used, so that importing `toolgate` costs nothing."""
    if name not in _FRONT:
        raise AttributeError(f"module 'toolgate' has no attribute {name!r}")
    module, _, there = _FRONT[name].partition(":")
    value: object = getattr(import_module(module), there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names of the front door too, for completion in a Python prompt."""
    return sorted({*globals(), *_FRONT})
