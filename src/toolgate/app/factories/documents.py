"""Builds the configured embedders and vector stores of documents on first use."""

from collections.abc import Callable

from toolgate.app.factories.plugin_checks import reranker_spec
from toolgate.app.factories.storage import VectorStores
from toolgate.base.plugins import available, make
from toolgate.errors import SettingError
from toolgate.models.embedders import Embedder, VerifiedEmbedder
from toolgate.models.rerankers import Reranker
from toolgate.search import end
from toolgate.settings import DocumentModelTable, DocumentSettings
from toolgate.store import Store
from toolgate.store.vectors import VectorStore
from toolgate.types import PluginSpec

_IN_STORE = frozenset({"sqlite", "pgvector"})
"""Implementations that keep vectors in the store; each can read the backup of the other."""


class DocumentFactory:
    """Builds each configured part once, and again after its settings have changed."""

    def __init__(
        self, store: Store, vectors: VectorStores, settings: Callable[[], DocumentSettings]
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._settings = settings
        self._embedders: dict[str, tuple[DocumentModelTable, Embedder]] = {}
        self._reranker: tuple[PluginSpec, Reranker] | None = None
        self._old: list[object] = []

    def embedder(self, name: str) -> Embedder:
        """An embedding model by name."""
        tables = self._settings().models
        table = tables.get(name)
        if table is None:
            if name not in available("embedder"):
                names = sorted({*tables, *available("embedder")})
                raise SettingError(
                    f"There is no embedding model {name!r}.",
                    allowed=f"Models: {', '.join(names)}.",
                    hint=f"Add it under [documents.models.{name}].",
                )
            table = DocumentModelTable(embedder=name)
        if not table.enabled:
            raise SettingError(
                f"The embedding model {name!r} is switched off.",
                hint=f"Set enabled = true under [documents.models.{name}].",
            )
        known = self._embedders.get(name)
        if known is not None and known[0] == table:
            return known[1]
        spec = PluginSpec(
            name=table.embedder,
            setting=f"documents.models.{name}.embedder",
            options=table.options,
            options_at=f"documents.models.{name}.options",
        )
        made = VerifiedEmbedder(make("embedder", Embedder, spec, {}))
        if known is not None:
            self._old.append(known[1])
        self._embedders[name] = (table, made)
        return made

    def reranker(self) -> Reranker | None:
        """The reranker of passages; None if it is off."""
        spec = reranker_spec(self._settings())
        if spec is None:
            return None
        if self._reranker is not None:
            if self._reranker[0] == spec:
                return self._reranker[1]
            self._old.append(self._reranker[1])
        services: dict[str, object] = {"embedder": self.embedder("bundled")}
        made = make("reranker", Reranker, spec, services)
        self._reranker = (spec, made)
        return made

    def place_of(self, place: str) -> str:
        """Check the name of a vector store.

        Raises:
            SettingError: It belongs to another kind of store.
        """
        in_store = self._store.vector_backend
        if place in _IN_STORE and place != in_store:
            elsewhere = [
                name for name in available("vectors") if name not in {*_IN_STORE, in_store}
            ]
            raise SettingError(
                f"The vector store {place!r} does not match Toolgate's store, which uses "
                f"{in_store!r}.",
                allowed=f"Allowed: {', '.join(['auto', in_store, *elsewhere])}.",
                hint="Correct documents.place, or the option --place.",
            )
        return in_store if place == "auto" else place

    def vectors(self, place: str) -> VectorStore:
        """The vector store with a name."""
        # Vectors from a backup of another kind of store are in the same table here.
        name = self._store.vector_backend if place in {"auto", *_IN_STORE} else place
        return self._vectors.get(
            PluginSpec(
                name=name,
                setting="documents.place",
                options=self._settings().place_options.get(name, {}),
                options_at=f"documents.place_options.{name}",
            )
        )

    async def aclose(self) -> None:
        """Close the embedders and the reranker."""
        for backend in (
            *self._old,
            *(made for _, made in self._embedders.values()),
            *([self._reranker[1]] if self._reranker else []),
        ):
            await end(backend)
        self._embedders.clear()
        self._reranker = None
        self._old.clear()
