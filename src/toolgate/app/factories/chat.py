"""Builds the chat models, and the chat as soon as there is a model."""

from collections.abc import Callable

from toolgate.base.plugins import make
from toolgate.chat import ChatService, Engine, HelperModel, TurnServices
from toolgate.gateway.gateway import Gateway
from toolgate.models.llm import ChatModel, ModelRegistry
from toolgate.prompts import Prompts
from toolgate.settings import Settings
from toolgate.store import ThreadRepository
from toolgate.types import PluginSpec

__all__ = ["ChatFactory", "ChatModels"]


class ChatModels:
    """The chat models of the settings; there may be none."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        """Build no model yet: each is built when it is first used."""
        self._settings = settings
        tables = settings()
        self.registry = ModelRegistry(
            tables.models,
            make=lambda spec: make("llm", ChatModel, spec, {}),
            default=tables.chat.model,
        )
        """All of them."""
        self._helper = HelperModel(self.registry, lambda: settings().chat)

    def helper(self) -> HelperModel | None:
        """The model for short questions outside of turns; None: no model is configured."""
        return self._helper if self.registry.tables else None

    async def reload(self) -> None:
        """Use the models of the current settings."""
        settings = self._settings()
        await self.registry.reload(settings.models, settings.chat.model)


class ChatFactory:
    """Starts the chat with the first model that is configured."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        models: ChatModels,
        *,
        gateway: Gateway,
        prompts: Prompts,
        threads: ThreadRepository,
    ) -> None:
        """Start no chat yet.

        Args:
            settings: The current settings.
            models: The chat models.
            gateway: Finds and runs the tools of turns.
            prompts: Texts for the models.
            threads: Where conversations are kept.
        """
        self._settings = settings
        self._models = models
        self._services = TurnServices(
            gateway=gateway,
            models=models.registry,
            prompts=prompts,
            settings=lambda: settings().chat,
        )
        self._threads = threads
        self.service: ChatService | None = None
        """Runs whole turns; None while no model was configured."""

    async def reload(self) -> None:
        """Use the models of the current settings; turns that run keep theirs.

        Raises:
            ConfigError: There is no such engine.
        """
        await self._models.reload()
        if self.service is None and self._models.registry.tables:
            engine = PluginSpec(name=self._settings().chat.engine, setting="chat.engine")
            self.service = ChatService(
                self._services, self._threads, make("engine", Engine, engine, {})
            )

    async def warm_up(self) -> None:
        """Load what the default model needs before somebody waits for it."""
        if self.service is not None:
            await self._models.registry.warm_up()

    async def aclose(self) -> None:
        """End the turns that run, and the connections to models."""
        if self.service is not None:
            await self.service.aclose()
        await self._models.registry.aclose()
