"""All servers of a gateway: from files, from the store and from packs."""

import logging

from toolgate.app.servers.server_registry import ServerRegistry
from toolgate.catalog import Catalog
from toolgate.errors import ConfigError, SettingError, StoreError
from toolgate.packs import Packs
from toolgate.settings import CurrentSettings, Settings
from toolgate.types import ServerSpec

log = logging.getLogger(__name__)


class ConfiguredServers:
    """Keeps the catalog up to date with files, store and packs."""

    def __init__(
        self,
        settings: CurrentSettings,
        *,
        registry: ServerRegistry,
        packs: Packs,
        catalog: Catalog,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._packs = packs
        self._catalog = catalog

    async def specs(self, settings: Settings) -> list[ServerSpec]:
        """The servers configured by these settings, the store and the packs.

        Raises:
            SettingError: A name is configured twice, or a server does not fit the settings.
        """
        specs = await self._registry.specs(settings)
        if settings.tool_names != "flat":
            names = [spec.name for spec in specs]
            specs += self._packs.specs(names, has_connections=bool(settings.connections))
            return self._registry.overridden(specs)
        if len(specs) != 1:
            raise SettingError(
                f'tool_names = "flat" serves exactly one server; {len(specs)} are configured.',
                hint='Configure one server, or set tool_names = "prefixed".',
            )
        return self._registry.overridden(specs)

    async def load(self) -> None:
        """Load the stored listings into the catalog, and connect.

        Raises:
            SettingError: The servers conflict.
        """
        await self._catalog.load(await self.specs(self._settings.current))

    async def reload(self, settings: Settings) -> None:
        """Apply the servers of new settings; unchanged servers keep running.

        Raises:
            SettingError: The servers conflict; nothing was changed.
        """
        await self._catalog.reload(await self.specs(settings))

    async def follow_store(self) -> None:
        """Apply changes that other processes made in the store; invalid ones are logged."""
        try:
            await self._catalog.adopt_decisions()
            async with self._registry.foreign_change() as is_changed:
                if is_changed:
                    await self.reload(self._settings.current)
        except (ConfigError, StoreError) as error:
            log.warning("stored servers not taken over", extra={"error": error.full_text})

    async def follow_packs(self) -> None:
        """Apply the current servers of packs; invalid ones are logged."""
        try:
            await self.reload(self._settings.current)
        except ConfigError as error:
            log.error("servers of packs cannot be used: %s", error)  # noqa: TRY400
