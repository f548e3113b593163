"""What a strategy may have beside its duties: something to wait for, and something to end."""

from typing import Protocol, runtime_checkable

__all__ = ["end", "ready"]


@runtime_checkable
class _HasReady(Protocol):
    async def ready(self) -> None: ...


@runtime_checkable
class _HasClose(Protocol):
    async def aclose(self) -> None: ...


async def ready(part: object) -> None:
    """Wait until a strategy has all that it ranks by, such as vectors."""
    if isinstance(part, _HasReady):
        await part.ready()


async def end(part: object) -> None:
    """End what a strategy, an embedder or a model keeps open or does in the background."""
    if isinstance(part, _HasClose):
        await part.aclose()
