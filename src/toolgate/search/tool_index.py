"""The tools of a catalog in the form that search strategies need, read once per definition."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from toolgate.base import json_text
from toolgate.base.processes.memory import uncollected
from toolgate.search.ab_test import Experiment
from toolgate.search.base import SearchableTool, ServiceBacked
from toolgate.search.semantic.index_maintenance import VectorIndex
from toolgate.search.sequence_diff import exchanged, shared_head, shared_tail
from toolgate.types import Json, json_array, json_object


class Indexable(Protocol):
    """What the index reads of a tool in the catalog."""

    @property
    def key(self) -> str:
        """`server:tool`."""
        ...

    @property
    def server(self) -> str:
        """Name of its server."""
        ...

    @property
    def name(self) -> str:
        """Its name on that server."""
        ...

    @property
    def digest(self) -> str:
        """Changes with its definition."""
        ...

    @property
    def raw(self) -> bytes:
        """Its definition as JSON."""
        ...


class ToolIndex:
    """Updates the searches to the versions of a catalog."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        """Assigns a search to each conversation."""
        self._version = -1
        self._changing = False
        self._definitions: tuple[Indexable, ...] = ()
        self._tools: tuple[SearchableTool, ...] = ()
        self._updating = asyncio.Lock()

    @property
    def tools(self) -> tuple[SearchableTool, ...]:
        """The tools that are searched, in the order of the mask."""
        return self._tools

    def has_version(self, version: int) -> bool:
        """Return whether the searches have exactly the tools of this version, in its order."""
        return version == self._version and not self._changing

    async def update_to(self, version: int, tools: Sequence[Indexable]) -> None:
        """Index these tools unless this version or a newer one is already indexed."""
        if version <= self._version:
            return
        async with self._updating:
            if version <= self._version:
                return
            definitions, read = await asyncio.to_thread(self._searchable, tuple(tools))
            self._definitions, self._tools = definitions, read
            self._changing = True
            await self.experiment.update(read)
            self._version = version
            self._changing = False

    @property
    def vector_indexes(self) -> list[tuple[str, VectorIndex]]:
        """The searches with vectors to maintain, with their names in the settings."""
        indexes: list[tuple[str, VectorIndex]] = []
        for arm in self.experiment.all:
            search: object = arm.strategy
            while search is not None and not isinstance(search, VectorIndex):
                search = getattr(search, "inner", None)  # one that asks another
            if search is not None:
                indexes.append((arm.name, search))
        return indexes

    @property
    def services(self) -> list[tuple[str, ServiceBacked]]:
        """The searches that call services, with their names in the settings."""
        services: list[tuple[str, ServiceBacked]] = []
        for arm in self.experiment.all:
            search: object = arm.strategy
            while search is not None:
                if isinstance(search, ServiceBacked):
                    services.append((arm.name, search))
                search = getattr(search, "inner", None)
        return services

    async def use(self, experiment: Experiment) -> None:
        """Switch to other searches, over the same tools."""
        async with self._updating:
            await experiment.update(self._tools)
            self.experiment = experiment

    def _searchable(
        self, tools: tuple[Indexable, ...]
    ) -> tuple[tuple[Indexable, ...], tuple[SearchableTool, ...]]:
        """Return the tools and their searchable forms; unchanged ones are the same objects."""
        old, read = self._definitions, self._tools
        head = shared_head(old, tools)
        tail = shared_tail(old, tools, head)
        middle = {tool.key: tool for tool in tools[head : len(tools) - tail]}
        read_before = {tool.key: tool for tool in read[head : len(read) - tail]}
        with uncollected():
            fresh = [_fresh(tool, read_before.get(tool.key)) for tool in middle.values()]
        end = len(tools) - tail
        definitions = tools
        if len(middle) != end - head:  # a name that a server has twice counts once
            definitions = (*tools[:head], *middle.values(), *tools[end:])
        return definitions, exchanged(read, head, fresh, tail)


def _fresh(tool: Indexable, last: SearchableTool | None) -> SearchableTool:
    return last if last is not None and last.digest == tool.digest else IndexedTool(tool)


# Setting the slots of a frozen object directly takes a third of the time: there may be a million.
_set_key, _set_server, _set_name, _set_digest = (
    SearchableTool.__dict__[name].__set__ for name in ("key", "server", "name", "digest")
)


class IndexedTool(SearchableTool):
    """A tool whose texts are read from its definition when needed.

    They are needed once, to count its words, and then only for the few tools that are shown:
    storing those of a million tools next to the definitions would take another gigabyte.
    """

    __slots__ = ("_raw",)

    _raw: bytes

    def __init__(self, tool: Indexable) -> None:
        _set_key(self, tool.key)
        _set_server(self, tool.server)
        _set_name(self, tool.name)
        _set_digest(self, tool.digest)
        object.__setattr__(self, "_raw", tool.raw)

    @property
    def title(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - both are only read
        """Its human-readable title."""
        return _texts_of(self._raw)[0]

    @property
    def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - both are only read
        """Its full description."""
        return _texts_of(self._raw)[1]

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:  # pyright: ignore[reportIncompatibleVariableOverride] - both are only read
        """Names and descriptions of its top-level parameters."""
        return _texts_of(self._raw)[2]


@lru_cache(maxsize=1_024)
def _texts_of(raw: bytes) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Return title, description and parameters; cached, since they are requested one by one."""
    definition = json_object(json_text.loads(raw))
    properties = json_object(json_object(definition.get("inputSchema")).get("properties"))
    title = definition.get("title") or json_object(definition.get("annotations")).get("title")
    return (
        title if isinstance(title, str) else "",
        _with_tags(_text(definition.get("description")), definition),
        tuple(
            (name, _text(json_object(schema).get("description")))
            for name, schema in properties.items()
        ),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _with_tags(description: str, definition: Json) -> str:
    """Append the tags of an override to the description, so that they are searched too."""
    tags = json_array(json_object(definition.get("_meta")).get("toolgate/tags"))
    words = " ".join(tag for tag in tags if isinstance(tag, str))
    return f"{description}\n{words}".strip() if words else description
