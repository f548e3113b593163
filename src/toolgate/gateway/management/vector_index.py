"""The tools' vectors: their state, recomputation and deletion."""

from collections.abc import Sequence
from time import perf_counter

from toolgate.catalog import Snapshot
from toolgate.errors import SettingError
from toolgate.gateway.parts import GatewayContext
from toolgate.search import IndexedTexts, VectorIndex, indexed_texts
from toolgate.types import Caller, Json


class VectorIndexManagement:
    """Shows and maintains the vectors that tools are found by."""

    def __init__(self, context: GatewayContext) -> None:
        self._catalog = context.catalog
        self._access = context.access
        self._index = context.search.index
        self._visible = context.visible
        self._receipts = context.receipts

    def texts(self, caller: Caller, keys: Sequence[str]) -> dict[str, IndexedTexts]:
        """The embedded texts of tools, by key; a tool's vector is the mean of theirs.

        Raises:
            UnknownToolError: A key names no tool of this caller.
        """
        entries = [self._visible.tool(caller, key) for key in dict.fromkeys(keys)]
        return {entry.key: indexed_texts(entry) for entry in entries}

    async def status(self, caller: Caller) -> Json:
        """The state of the vectors for each search variant, and of the services that compute them.

        Servers that the caller may not see are left out.
        """
        await self._update()
        searches: list[Json] = []
        for name, index in self._index.vector_indexes:
            status = await index.index_status()
            servers = [
                row
                for row in status["servers"]
                if self._access.decide(caller, "server", row["name"]).allowed
            ]
            searches.append({"search": name, **status, "servers": servers})
        services: dict[str, bool] = {}
        for name, service in self._index.services:
            services[name] = services.get(name, False) or service.is_suspended
        return {
            "searches": searches,
            "searched_by": [variant.name for variant in self._index.experiment.all],
            "services": [
                {"search": name, "is_left_alone": is_suspended}
                for name, is_suspended in services.items()
            ],
        }

    async def refresh(self, caller: Caller, server: str | None = None) -> int:
        """Recompute the vectors of one server or of all. Return the number of tools.

        They are computed in the background; see `status`.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
            SettingError: No search variant has vectors.
        """
        self._visible.must_manage(caller)
        if server is not None:
            self._catalog.server(server)
        began = perf_counter()
        await self._update()
        servers = None if server is None else [server]
        counts = [await index.refresh(servers) for index in self._vector_indexes()]
        detail: Json = {"index": "refresh", "server": server}
        await self._receipts.note(caller, "index", detail, began=began)
        return max(counts)

    async def remove(self, caller: Caller, server: str) -> int:
        """Delete the stored vectors of a server. Return the number of tools.

        Vectors in memory stay in use; `refresh` or the next start recomputes the stored ones.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: Nothing is stored for this name, and the server does not exist.
            SettingError: No search variant has vectors.
        """
        self._visible.must_manage(caller)
        began = perf_counter()
        snapshot = await self._update()
        counts = [await index.forget(server) for index in self._vector_indexes()]
        if not any(counts) and server not in snapshot.servers:
            self._catalog.server(server)
        detail: Json = {"index": "remove", "server": server}
        await self._receipts.note(caller, "index", detail, began=began)
        return max(counts)

    async def _update(self) -> Snapshot:
        snapshot = self._catalog.snapshot
        await self._index.update_to(snapshot.version, snapshot.tools)
        return snapshot

    def _vector_indexes(self) -> list[VectorIndex]:
        indexes = [index for _, index in self._index.vector_indexes]
        if not indexes:
            raise SettingError(
                f"The search {self._index.experiment.all[0].name!r} has no vectors.",
                hint='Set optimization = "hybrid" for semantic search.',
            )
        return indexes
