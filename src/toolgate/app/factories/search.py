"""Builds search strategies, their embedder and their other parts from the settings."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from toolgate.app.factories.storage import VectorStores
from toolgate.base.plugins import make
from toolgate.errors import ConfigError
from toolgate.models.embedders import Embedder, VerifiedEmbedder
from toolgate.search import (
    Experiment,
    SearchStrategy,
    ToolIndex,
    ToolVectorStore,
    Variant,
    end,
)
from toolgate.settings import SearchSettings, Settings, data_dir
from toolgate.store import Store
from toolgate.types import PluginSpec

log = logging.getLogger(__name__)


class SearchFactory:
    """The search strategies of a gateway, replaced as a whole when their settings change."""

    def __init__(self, settings: Settings, services: Mapping[str, object]) -> None:
        self._services = services
        self._now = self._prepared(settings)
        self.index = ToolIndex(self._now.arms)
        """Index of tools."""
        self.contents = ToolIndex(self._now.contents)
        """Index of prompts, resources, templates and skills."""

    @property
    def strategies(self) -> "Strategies":
        """Builds further strategies with the same options and embedder."""
        return self._now.strategies

    def embedder_if_usable(self) -> Embedder | None:
        """The embedder; None, with a warning, if it cannot be built."""
        try:
            return self.strategies.embedder()
        except ConfigError as error:
            log.warning("intents are told without an embedder", extra={"reason": str(error)})
            return None

    def prepare(self, settings: Settings) -> "Prepared":
        """Build the strategies of new settings for `reload`, without replacing any.

        Raises:
            ConfigError: A strategy or embedder does not exist, or has invalid options.
        """
        return self._now if self._now.wanted == _wanted(settings) else self._prepared(settings)

    def _prepared(self, settings: Settings) -> "Prepared":
        strategies = Strategies(settings.search, self._services)
        table = settings.catalog_search
        if table.tokens:  # what is wrong there is said now and not to the first who asks
            strategies.make(
                table.strategy, selector=table.selector, setting="catalog_search.strategy"
            )
        return Prepared(
            wanted=_wanted(settings),
            strategies=strategies,
            arms=strategies.arms(settings),
            contents=strategies.for_contents(settings),
        )

    async def reload(self, prepared: "Prepared") -> None:
        """Replace the strategies by prepared ones, and close the old ones."""
        if prepared is self._now:
            return
        before, self._now = self._now, prepared
        await self.index.use(prepared.arms)
        await self.contents.use(prepared.contents)
        await before.aclose()

    async def aclose(self) -> None:
        """Close all strategies."""
        await self._now.aclose()


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Strategies that are built but not yet used."""

    wanted: tuple[object, ...]
    """The settings that they were built from."""

    strategies: "Strategies"
    """Their builder."""

    arms: Experiment
    """Assigns strategies to conversations."""

    contents: Experiment
    """The strategy for everything except tools."""

    async def aclose(self) -> None:
        """Close them."""
        for arm in (*self.arms.all, *self.contents.all):
            await end(arm.strategy)
        await self.strategies.aclose()


class Strategies:
    """Builds search strategies by name, with their options from the settings.

    All of them share one embedder, which is built when it is first needed.
    """

    def __init__(self, settings: SearchSettings, services: Mapping[str, object]) -> None:
        """Strategies can use `services`, such as `store`, and those built here."""
        self._settings = settings
        self._services = services
        self._embedder: Embedder | None = None
        self._vectors: ToolVectorStore | None = None

    def make(
        self,
        name: str,
        *,
        selector: str = "",
        setting: str = "optimization",
        keeps: bool = False,
    ) -> SearchStrategy:
        """Build a strategy with an empty index; the caller closes it with `end`.

        Args:
            name: A file name in `search/strategies/`.
            selector: Selects from its best hits; empty: none.
            setting: The setting with the name, for messages.
            keeps: Whether its vectors are saved in the store, which knows one catalog.

        Raises:
            ConfigError: The strategy does not exist, or its options are invalid.
        """
        spec = self._spec(name, setting)
        made = make(
            "search", SearchStrategy, spec, _StrategyServices(self, self._services, keeps=keeps)
        )
        if not selector or name == "off":
            return made
        spec = self._spec(selector, "search.selector")
        services = _StrategyServices(self, {**self._services, "base": made}, keeps=keeps)
        return make("search", SearchStrategy, spec, services)

    def _spec(self, name: str, setting: str) -> PluginSpec:
        options = self._settings.options.get(name, {})
        return PluginSpec(
            name=name, setting=setting, options=options, options_at=f"search.options.{name}"
        )

    def arms(self, settings: Settings) -> Experiment:
        """The strategies of conversations, as `optimization` and `experiment_percent` say.

        Raises:
            ConfigError: A strategy does not exist, or its options are invalid.
        """
        share = settings.experiment_percent
        names = settings.optimizations
        selector = settings.search.selector
        main = control = None
        if settings.optimization in names:
            main = Variant(
                name=settings.optimization,
                strategy=self.make(settings.optimization, selector=selector, keeps=True),
            )
        if settings.control in names:
            control = Variant(
                name=settings.control, strategy=self.make(settings.control, keeps=True)
            )
        known = {arm.name for arm in (main, control) if arm is not None}
        others = [
            Variant(name=name, strategy=self.make(name, selector=selector, setting="a project"))
            for name in settings.project_optimizations
            if name not in known
        ]
        return Experiment(main=main, control=control, share_percent=share, further=others)

    def for_contents(self, settings: Settings) -> Experiment:
        """The strategy for prompts, resources, templates and skills.

        It always uses the bundled embedding model: there are few entries, so their vectors are
        not saved, and no external service has to embed them at each start.
        """
        words_alone = settings.optimizations <= {"bm25", "off"}
        name = "bm25" if words_alone else "hybrid"
        spec = self._spec(name, "optimization")
        bundled = PluginSpec(name="bundled", setting="search.embedder")
        services: dict[str, object] = (
            {} if words_alone else {"embedder": make("embedder", Embedder, bundled, {})}
        )
        return Experiment(
            main=Variant(name=name, strategy=make("search", SearchStrategy, spec, services))
        )

    def embedder(self) -> Embedder:
        """The embedder.

        Raises:
            ConfigError: It does not exist, or its options are invalid.
        """
        if self._embedder is None:
            spec = PluginSpec(
                name=self._settings.embedder,
                setting="search.embedder",
                options=self._settings.embedder_options,
                options_at="search.embedder_options",
            )
            self._embedder = VerifiedEmbedder(make("embedder", Embedder, spec, {}))
        return self._embedder

    def vectors(self) -> ToolVectorStore | None:
        """The vector store of tools; None if vectors are not saved.

        Raises:
            ConfigError: It does not exist, or its options are invalid.
        """
        store, stores = self._services.get("store"), self._services.get("vector_stores")
        name = self._settings.vectors
        if self._vectors is None and name != "off" and isinstance(store, Store):
            assert isinstance(stores, VectorStores)
            spec = PluginSpec(
                name=store.vector_backend if name == "auto" else name,
                setting="search.vectors",
                options=self._settings.vector_options,
                options_at="search.vector_options",
            )
            self._vectors = ToolVectorStore(stores.get(spec), store.catalog.texts)
        return self._vectors

    def index_file(self) -> Path | None:
        """Path prefix of the files in which strategies save their index; None: no files."""
        store = self._services.get("store")
        if self._settings.vectors == "off" or not isinstance(store, Store):
            return None
        return store.cache_path(data_dir())

    async def aclose(self) -> None:
        """Close the embedder."""
        await end(self._embedder)


def _wanted(settings: Settings) -> tuple[object, ...]:
    return (
        settings.optimization,
        settings.experiment_percent,
        settings.project_optimizations,
        settings.search,
        settings.catalog_search,
    )


class _StrategyServices(Mapping[str, object]):
    """The services available to a strategy."""

    def __init__(
        self, strategies: Strategies, others: Mapping[str, object], *, keeps: bool
    ) -> None:
        self._strategies = strategies
        self._others = others
        self._keeps = keeps

    def __getitem__(self, name: str) -> object:
        match name:
            case "embedder":
                return self._strategies.embedder()
            case "make_search":
                return partial(self._strategies.make, keeps=self._keeps)
            case "vectors":
                return self._strategies.vectors() if self._keeps else None
            case "index_file":
                return self._strategies.index_file() if self._keeps else None
            case _:
                return self._others[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("embedder", "make_search", "vectors", "index_file", *self._others))

    def __len__(self) -> int:
        return 4 + len(self._others)
