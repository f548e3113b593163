"""The settings of each project, from the file and from the store."""

from collections.abc import Mapping

from toolgate.security.access import AccessData, project_table
from toolgate.settings import ProjectTable, Settings

_NO_SETTINGS = ProjectTable()


class ProjectTables:
    """The settings of projects; the file takes precedence over the store."""

    def __init__(self, settings: Settings, data: AccessData) -> None:
        """Read the projects of the file and of `data`."""
        self._settings = settings
        self._data = data
        self._tables: dict[str, ProjectTable] = {}
        data.refer_to(settings.project)
        self.refresh()

    def table(self, name: str) -> ProjectTable:
        """The settings of a project; empty if it does not exist."""
        return self._tables.get(name, _NO_SETTINGS)

    def limits_of(self, name: str) -> Mapping[str, int]:
        """The limits of a project for each of its callers."""
        return self._tables.get(name, _NO_SETTINGS).limits

    @property
    def by_name(self) -> dict[str, ProjectTable]:
        """All projects by name."""
        return dict(self._tables)

    def is_closed(self, name: str) -> bool:
        """Whether a project refuses actions that the audit log cannot record."""
        return (
            self._tables.get(name, _NO_SETTINGS).audit or self._settings.audit.on_failure
        ) == "closed"

    @property
    def optimizations(self) -> tuple[str, ...]:
        """Names of the search strategies that projects use, sorted."""
        return tuple(sorted({table.optimization for table in self._tables.values()} - {""}))

    def reload(self, settings: Settings) -> None:
        """Apply the projects of new settings."""
        self._settings = settings
        self._data.refer_to(settings.project)
        self.refresh()

    def refresh(self) -> None:
        """Apply the projects of the store."""
        stored = {
            name: project_table(project.settings)
            for name, project in self._data.snapshot.projects.items()
            if name not in self._settings.project
        }
        self._tables = {**stored, **self._settings.project}
