"""Builds embedders and vector stores of documents from the settings, on first use."""

from collections.abc import Callable

from toolgate.base.plugins import available, make
from toolgate.errors import SettingError
from toolgate.models.embedders import Embedder, VerifiedEmbedder
from toolgate.search import end
from toolgate.settings import DocumentModelTable, DocumentSettings, data_dir
from toolgate.store import Store
from toolgate.store.passages import PassageIndex
from toolgate.types import PluginSpec

__all__ = ["DocumentFactory"]

_IN_STORE = frozenset({"sqlite", "pgvector"})
"""Implementations that keep vectors in the store; a backup of one is read by the other."""


class DocumentFactory:
    """Makes what the settings name, once; made anew when the settings of it are different."""

    def __init__(self, store: Store, settings: Callable[[], DocumentSettings]) -> None:
        self._store = store
        self._settings = settings
        self._embedders: dict[str, tuple[DocumentModelTable, Embedder]] = {}
        self._indexes: dict[str, tuple[dict[str, object], PassageIndex]] = {}
        self._old: list[object] = []

    def embedder(self, name: str) -> Embedder:
        """An embedding model by its name."""
        tables = self._settings().models
        table = tables.get(name)
        if table is None:
            if name not in available("embedder"):
                names = sorted({*tables, *available("embedder")})
                raise SettingError(
                    f"There is no embedding model {name!r}.",
                    allowed=f"Models: {', '.join(names)}.",
                    hint=f"Describe it under [documents.models.{name}].",
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

    def place_of(self, place: str) -> str:
        """The name of a place.

        Raises:
            SettingError: It is that of another kind of store.
        """
        in_store = self._store.vector_backend
        if place in _IN_STORE and place != in_store:
            elsewhere = [
                name for name in available("passages") if name not in {*_IN_STORE, in_store}
            ]
            raise SettingError(
                f"The place {place!r} is not that of this store ({in_store}).",
                allowed=f"Allowed: {', '.join(['auto', in_store, *elsewhere])}.",
                hint="Correct documents.place, or the option --place.",
            )
        return in_store if place == "auto" else place

    def index(self, place: str) -> PassageIndex:
        """A place for vectors."""
        # What a backup of another kind of store brought lies in the same table here.
        name = self._store.vector_backend if place in {"auto", *_IN_STORE} else place
        options = dict(self._settings().place_options.get(name, {}))
        known = self._indexes.get(name)
        if known is not None and known[0] == options:
            return known[1]
        spec = PluginSpec(
            name=name,
            setting="documents.place",
            options=options,
            options_at=f"documents.place_options.{name}",
        )
        services: dict[str, object] = {"store": self._store, "data_dir": data_dir()}
        made = make("passages", PassageIndex, spec, services)
        if known is not None:
            self._old.append(known[1])
        self._indexes[name] = (options, made)
        return made

    async def aclose(self) -> None:
        """Let go of what is open."""
        for each in (
            *self._old,
            *(made for _, made in self._embedders.values()),
            *(made for _, made in self._indexes.values()),
        ):
            await end(each)
        self._embedders.clear()
        self._indexes.clear()
        self._old.clear()
