"""Texts that override prompts, in SQL."""

from sqlalchemy import RowMapping, func, select

from toolgate.store.engine import tables
from toolgate.store.engine.database import SqlRepository
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.prompts import StoredPrompt


class SqlPrompts(SqlRepository):
    """Implements `PromptRepository`."""

    async def versions(self, project_id: str, name: str | None) -> list[StoredPrompt]:
        """All versions of a prompt, oldest first; without a name, the latest of each prompt."""
        table = tables.prompt_versions
        in_project = table.c.project_id == escape_text(project_id)
        query = select(table).where(in_project).order_by(table.c.name, table.c.version)
        if name is not None:
            query = query.where(table.c.name == escape_text(name))
        else:
            latest = (
                select(table.c.name, func.max(table.c.version).label("version"))
                .where(in_project)
                .group_by(table.c.name)
                .subquery()
            )
            query = query.join(
                latest,
                (table.c.name == latest.c.name) & (table.c.version == latest.c.version),
            )
        return await self.database.fetch_all(query, _from)

    async def add(self, version: StoredPrompt) -> None:
        """Add a version."""
        row = {
            **vars(version),
            "project_id": escape_text(version.project_id),
            "name": escape_text(version.name),
            "text": None if version.text is None else escape_text(version.text),
            "changed_by": escape_text(version.changed_by),
        }
        await self.database.execute(self.database.insert(tables.prompt_versions), row)


def _from(row: RowMapping) -> StoredPrompt:
    return StoredPrompt(
        project_id=unescape_text(row["project_id"]),
        name=unescape_text(row["name"]),
        version=row["version"],
        text=None if row["text"] is None else unescape_text(row["text"]),
        changed_at=row["changed_at"],
        changed_by=unescape_text(row["changed_by"]),
    )
