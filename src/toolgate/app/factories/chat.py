"""Builds the chat models, and the chat once there is a model."""

import logging

import anyio

from toolgate.base.lazy_loading import run_alone
from toolgate.base.plugins import check_installed, make
from toolgate.base.processes.memory import starting
from toolgate.chat import ChatService, Engine, HelperModel, TurnServices
from toolgate.errors import ToolgateError
from toolgate.gateway.gateway import Gateway
from toolgate.models.llm import ChatModel, ModelRegistry
from toolgate.prompts import Prompts
from toolgate.settings import CurrentSettings
from toolgate.store import ThreadRepository
from toolgate.types import PluginSpec

log = logging.getLogger(__name__)


class ChatModels:
    """The configured chat models, if any."""

    def __init__(self, settings: CurrentSettings) -> None:
        """Build no model yet; each is built on first use."""
        self._settings = settings
        tables = settings.current
        self.registry = ModelRegistry(
            tables.models,
            make=lambda spec: make("llm", ChatModel, spec, {}),
            default=tables.chat.model,
        )
        """All configured models."""
        self._helper = HelperModel(self.registry, settings)

    def helper(self) -> HelperModel | None:
        """The model for short questions outside of turns; None if no model is configured."""
        return self._helper if self.registry.tables else None

    async def reload(self) -> None:
        """Apply the models of the current settings."""
        settings = self._settings.current
        await self.registry.reload(settings.models, settings.chat.model)


class ChatFactory:
    """Starts the chat once a model is configured."""

    def __init__(
        self,
        settings: CurrentSettings,
        models: ChatModels,
        *,
        gateway: Gateway,
        prompts: Prompts,
        threads: ThreadRepository,
    ) -> None:
        """Create the factory without starting a chat.

        Args:
            settings: The current settings.
            models: The chat models.
            gateway: Finds and runs the tools of turns.
            prompts: Prompts for the models.
            threads: Stores conversations.
        """
        self._settings = settings
        self._models = models
        self._services = TurnServices(
            gateway=gateway,
            models=models.registry,
            prompts=prompts,
            settings=settings,
        )
        self._threads = threads
        self._engine: _LateEngine | None = None
        self.service: ChatService | None = None
        """Runs chat turns; None until a model is configured."""

    async def reload(self) -> None:
        """Apply the models of the current settings; running turns keep theirs.

        Raises:
            ConfigError: The engine does not exist.
        """
        await self._models.reload()
        if self.service is None and self._models.registry.tables:
            engine = PluginSpec(name=self._settings.current.chat.engine, setting="chat.engine")
            providers = {table.provider: "llm" for table in self._models.registry.tables.values()}
            check_installed("engine", engine, used_with=providers)
            self._engine = _LateEngine(engine)
            self.service = ChatService(self._services, self._threads, self._engine.built)

    async def warm_up(self) -> None:
        """Load what the first turn would otherwise wait for: 2 CPU s of imports, most of it."""
        if self._engine is None:
            return
        try:
            # A scan of all new objects by the collector would hold every request up for 100 ms.
            with starting():
                await self._engine.built()
                await self._models.registry.warm_up()
                await self._services.gateway.load_for_messages()
            await self._services.gateway.intents.rehearse()
        except ToolgateError as error:
            log.warning("the chat is not warmed up", extra={"reason": str(error)})
        except Exception:
            # The first turn meets it again, and its user gets the answer.
            log.exception("the chat cannot be warmed up")

    async def aclose(self) -> None:
        """End running turns, and close the connections to models."""
        if self.service is not None:
            await self.service.aclose()
        await self._models.registry.aclose()


class _LateEngine:
    """The engine of turns, built by the first turn or before: LangGraph takes 0.6 CPU s to import.

    Built in a thread and not before a gateway serves, which would be ready that much later.
    """

    def __init__(self, spec: PluginSpec) -> None:
        self._spec = spec
        self._engine: Engine | None = None
        self._building = anyio.Lock()

    async def built(self) -> Engine:
        """Return the engine, built once."""
        if self._engine is None:
            async with self._building:
                if self._engine is None:
                    self._engine = await run_alone(lambda: make("engine", Engine, self._spec, {}))
        return self._engine
