"""Optional methods of strategies: waiting until they are ready, and closing them."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class _HasReady(Protocol):
    async def ready(self) -> None: ...


@runtime_checkable
class _HasClose(Protocol):
    async def aclose(self) -> None: ...


async def ready(part: object) -> None:
    """Wait until a strategy has everything that it ranks by, such as vectors."""
    if isinstance(part, _HasReady):
        await part.ready()


async def end(part: object) -> None:
    """Close a strategy, an embedder or a model, and stop its background tasks."""
    if isinstance(part, _HasClose):
        await part.aclose()
