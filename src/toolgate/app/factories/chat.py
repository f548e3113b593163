"""Builds the chat models, and the chat once there is a model."""

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
    """The configured chat models, if any."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        """Build no model yet; each is built on first use."""
        self._settings = settings
        tables = settings()
        self.registry = ModelRegistry(
            tables.models,
            make=lambda spec: make("llm", ChatModel, spec, {}),
            default=tables.chat.model,
        )
        """All configured models."""
        self._helper = HelperModel(self.registry, lambda: settings().chat)

    def helper(self) -> HelperModel | None:
        """The model for short questions outside of turns; None if no model is configured."""
        return self._helper if self.registry.tables else None

    async def reload(self) -> None:
        """Apply the models of the current settings."""
        settings = self._settings()
        await self.registry.reload(settings.models, settings.chat.model)


class ChatFactory:
    """Starts the chat once a model is configured."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        models: ChatModels,
        *,
        gateway: Gateway,
        prompts: Prompts,
        threads: ThreadRepository,
    ) -> None:
        """Create the factory without starting a chat.

        Args:
            settings: Returns the current settings.
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
            settings=lambda: settings().chat,
        )
        self._threads = threads
        self.service: ChatService | None = None
        """Runs chat turns; None until a model is configured."""

    async def reload(self) -> None:
        """Apply the models of the current settings; running turns keep theirs.

        Raises:
            ConfigError: The engine does not exist.
        """
        await self._models.reload()
        if self.service is None and self._models.registry.tables:
            engine = PluginSpec(name=self._settings().chat.engine, setting="chat.engine")
            self.service = ChatService(
                self._services, self._threads, make("engine", Engine, engine, {})
            )

    async def warm_up(self) -> None:
        """Load what the default model needs before the first request."""
        if self.service is not None:
            await self._models.registry.warm_up()

    async def aclose(self) -> None:
        """End running turns, and close the connections to models."""
        if self.service is not None:
            await self.service.aclose()
        await self._models.registry.aclose()
