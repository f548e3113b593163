"""The settings of each project, from the file and from the store."""

from collections.abc import Mapping

from toolgate.security.access import AccessData, project_table
from toolgate.settings import ProjectTable, Settings

__all__ = ["ProjectTables"]

_NO_SETTINGS = ProjectTable()


class ProjectTables:
    """What projects set; where a project is in both places, the file counts."""

    def __init__(self, settings: Settings, data: AccessData) -> None:
        """Read the file's projects and what `data` holds now."""
        self._settings = settings
        self._data = data
        self._tables: dict[str, ProjectTable] = {}
        data.refer_to(settings.project)
        self.refresh()

    def __getitem__(self, name: str) -> ProjectTable:
        """What a project sets; empty settings for a name that no project has."""
        return self._tables.get(name, _NO_SETTINGS)

    def limits_of(self, name: str) -> Mapping[str, int]:
        """The limits that a project sets for each of its callers."""
        return self._tables.get(name, _NO_SETTINGS).limits

    @property
    def by_name(self) -> dict[str, ProjectTable]:
        """All of them."""
        return dict(self._tables)

    def is_closed(self, name: str) -> bool:
        """Whether a project refuses what the audit cannot record."""
        return (
            self._tables.get(name, _NO_SETTINGS).audit or self._settings.audit.on_failure
        ) == "closed"

    @property
    def optimizations(self) -> tuple[str, ...]:
        """Names of the searches that projects use, sorted."""
        return tuple(sorted({table.optimization for table in self._tables.values()} - {""}))

    def reload(self, settings: Settings) -> None:
        """Use the projects of other settings."""
        self._settings = settings
        self._data.refer_to(settings.project)
        self.refresh()

    def refresh(self) -> None:
        """Take over what the store has now."""
        stored = {
            name: project_table(project.settings)
            for name, project in self._data.snapshot.projects.items()
            if name not in self._settings.project
        }
        self._tables = {**stored, **self._settings.project}
