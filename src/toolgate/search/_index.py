"""The tools of a catalog as a search strategy wants them, read once per definition."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from toolgate.search._arms import Arms
from toolgate.search.base import SearchableTool
from toolgate.types import Json, json_object

__all__ = ["Indexable", "ToolIndex"]


class Indexable(Protocol):
    """What the index reads of a catalog's tool."""

    @property
    def key(self) -> str:
        """`server:tool`."""
        ...

    @property
    def server(self) -> str:
        """Its server."""
        ...

    @property
    def name(self) -> str:
        """Its name there."""
        ...

    @property
    def digest(self) -> str:
        """Changes with its definition."""
        ...

    @property
    def definition(self) -> Json:
        """Its definition."""
        ...


class ToolIndex:
    """Keeps the searches up to date with the versions of a catalog."""

    def __init__(self, arms: Arms) -> None:
        self.arms = arms
        """Which search a conversation gets."""
        self._version = -1
        self._read: dict[str, SearchableTool] = {}
        self._updating = asyncio.Lock()

    async def bring_to(self, version: int, tools: Sequence[Indexable]) -> None:
        """Index these tools unless a version at least as new is indexed already."""
        if version <= self._version:
            return
        async with self._updating:
            if version <= self._version:
                return
            wanted = await asyncio.to_thread(self._searchable, tools)
            await self.arms.update(wanted)
            self._version = version

    async def use(self, arms: Arms) -> None:
        """Search with others from now on, over the same tools."""
        async with self._updating:
            await arms.update(list(self._read.values()))
            self.arms = arms

    def _searchable(self, tools: Sequence[Indexable]) -> list[SearchableTool]:
        found: dict[str, SearchableTool] = {}
        for tool in tools:
            known = self._read.get(tool.key)
            fresh = known if known and known.digest == tool.digest else _read(tool)
            found[tool.key] = fresh
        self._read = found
        return list(found.values())


def _read(tool: Indexable) -> SearchableTool:
    definition = tool.definition
    properties = json_object(json_object(definition.get("inputSchema")).get("properties"))
    title = definition.get("title") or json_object(definition.get("annotations")).get("title")
    return SearchableTool(
        key=tool.key,
        server=tool.server,
        name=tool.name,
        title=title if isinstance(title, str) else "",
        description=_text(definition.get("description")),
        parameters=tuple(
            (name, _text(json_object(schema).get("description")))
            for name, schema in properties.items()
        ),
        digest=tool.digest,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
