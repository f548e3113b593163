"""Keeps the search strategies of projects up to date."""

import logging
from dataclasses import replace

from toolgate.app.access_control import Permissions
from toolgate.app.factories.search import SearchFactory
from toolgate.errors import ConfigError
from toolgate.settings import CurrentSettings, Settings

log = logging.getLogger(__name__)


class ProjectSearches:
    """Builds a strategy once a project of file or store uses it."""

    def __init__(
        self, settings: CurrentSettings, search_factory: SearchFactory, permissions: Permissions
    ) -> None:
        self._settings = settings
        self._search_factory = search_factory
        self._permissions = permissions

    @property
    def is_outdated(self) -> bool:
        """Whether projects use other strategies than the existing ones."""
        settings = self._settings.current
        return self.required_by(settings) != settings.project_optimizations

    def required_by(self, settings: Settings) -> tuple[str, ...]:
        """Names of the strategies that projects of these settings and of the store use."""
        of_file = {table.optimization for table in settings.project.values()} - {""}
        return tuple(sorted(of_file | set(self._permissions.optimizations)))

    async def refresh(self) -> None:
        """Build missing strategies; one that cannot be built is logged and skipped."""
        settings = self._settings.current
        settings = replace(settings, project_optimizations=self.required_by(settings))
        try:
            await self._search_factory.reload(self._search_factory.prepare(settings))
        except ConfigError as error:
            log.error("a search of a project cannot be used: %s", error)  # noqa: TRY400
        self._settings.replace(settings)
