"""Which tools have which embedded texts, in plain SQL: catalogs may have 100,000s of tools."""

from collections.abc import Collection, Sequence
from typing import Any

from toolgate.base.ids import utc_now
from toolgate.store.engine.driver_sql import DriverSql, placeholders, portions, reads, writes
from toolgate.store.engine.text import escape_text, unescape_text
from toolgate.store.repositories.tool_texts import (
    StoredModel,
    TextLink,
    ToolTextCounts,
    UnlinkedTexts,
)

_TOUCHED_AFTER_S = 3_600.0
"""Seconds after which a model's time of last use is written again (chosen)."""

_OF_SERVER = "project_id = ? AND server = ?"


class SqlToolTexts(DriverSql):
    """Implements `ToolTextRepository`."""

    @writes
    def link(self, driver: Any, project_id: str, server: str, links: Sequence[TextLink]) -> int:
        """Replace the tools of a server. Returns the number of changed rows."""
        project, name, now = escape_text(project_id), escape_text(server), utc_now()
        links_by_tool = {escape_text(link.tool): link for link in links}

        rows = self.rows(
            driver,
            f"SELECT tool, text_hash, definition_hash FROM tool_texts WHERE {_OF_SERVER}",  # noqa: S608
            (project, name),
        )
        stored = {tool: (bytes(text), definition) for tool, text, definition in rows}
        gone = [(project, name, tool) for tool in stored if tool not in links_by_tool]
        fresh = [
            (
                project,
                name,
                tool,
                link.text_hash,
                escape_text(link.description),
                escape_text(link.enriched),
                escape_text(link.definition_hash),
                now,
                now,
            )
            for tool, link in links_by_tool.items()
            if stored.get(tool) != (link.text_hash, escape_text(link.definition_hash))
        ]
        self.many(driver, f"DELETE FROM tool_texts WHERE {_OF_SERVER} AND tool = ?", gone)  # noqa: S608
        self.many(
            driver,
            "INSERT INTO tool_texts (project_id, server, tool, text_hash, description,"
            " enriched, definition_hash, created_at, updated_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (project_id, server, tool) DO UPDATE SET"
            " text_hash = excluded.text_hash, description = excluded.description,"
            " enriched = excluded.enriched, definition_hash = excluded.definition_hash,"
            " updated_at = excluded.updated_at",
            fresh,
        )
        return len(gone) + len(fresh)

    @reads
    def links(self, driver: Any, project_id: str) -> dict[str, dict[str, bytes]]:
        """Hashes of texts by server and tool."""
        hashes: dict[str, dict[str, bytes]] = {}
        for server, tool, text in self.rows(
            driver,
            "SELECT server, tool, text_hash FROM tool_texts WHERE project_id = ?",
            (escape_text(project_id),),
        ):
            hashes.setdefault(unescape_text(server), {})[unescape_text(tool)] = bytes(text)
        return hashes

    @reads
    def linked(self, driver: Any, hashes: Collection[bytes]) -> set[bytes]:
        """Return the texts that a tool of any project uses."""
        linked: set[bytes] = set()
        for part in portions(list(hashes)):
            statement = (
                "SELECT DISTINCT text_hash FROM tool_texts"  # noqa: S608 - question marks only
                f" WHERE text_hash IN ({placeholders(part)})"
            )
            linked.update(bytes(row[0]) for row in self.rows(driver, statement, part))
        return linked

    @writes
    def unlink(self, driver: Any, project_id: str, server: str) -> UnlinkedTexts:
        """Delete the texts of a server."""
        of_server = (escape_text(project_id), escape_text(server))

        hashes = self.rows(
            driver,
            f"SELECT DISTINCT text_hash FROM tool_texts t WHERE {_OF_SERVER}"  # noqa: S608
            " AND NOT EXISTS (SELECT 1 FROM tool_texts o WHERE o.text_hash = t.text_hash"
            " AND (o.project_id <> ? OR o.server <> ?))",
            (*of_server, *of_server),
        )
        tools = self.run(driver, f"DELETE FROM tool_texts WHERE {_OF_SERVER}", of_server)  # noqa: S608
        return UnlinkedTexts(tools=tools, hashes=tuple(bytes(row[0]) for row in hashes))

    async def prune(self, *, before: str) -> int:
        """Delete the texts of servers without a listing. Returns their number."""
        statement = (
            "DELETE FROM tool_texts WHERE updated_at < ? AND NOT EXISTS"
            " (SELECT 1 FROM snapshots s WHERE s.project_id = tool_texts.project_id"
            " AND s.server = tool_texts.server)"
        )
        return await self.store.writing(lambda driver: self.run(driver, statement, (before,)))

    @reads
    def counts(self, driver: Any, project_id: str) -> ToolTextCounts:
        """Numbers of tools and servers of a project."""
        [[tools, servers]] = self.rows(
            driver,
            "SELECT count(*), count(DISTINCT server) FROM tool_texts WHERE project_id = ?",
            (escape_text(project_id),),
        )
        return ToolTextCounts(tools=tools, servers=servers)

    @writes
    def use_model(self, driver: Any, model: StoredModel) -> None:
        """Mark a model as in use."""
        now = utc_now()

        self.run(
            driver,
            "INSERT INTO vector_models (collection_id, model, dim, used_at)"
            " VALUES (?, ?, ?, ?) ON CONFLICT (collection_id) DO UPDATE"
            " SET used_at = excluded.used_at WHERE vector_models.used_at < ?",
            (
                model.collection_id,
                escape_text(model.model),
                model.dim,
                now,
                utc_now(plus_s=-_TOUCHED_AFTER_S),
            ),
        )

    @reads
    def models(self, driver: Any, *, unused_since: str | None = None) -> list[StoredModel]:
        """All models, or those unused since a time (UTC, ISO 8601)."""
        condition = "" if unused_since is None else " WHERE used_at < ?"
        values = () if unused_since is None else (unused_since,)

        statement = f"SELECT collection_id, model, dim FROM vector_models{condition}"  # noqa: S608
        return [
            StoredModel(collection_id=row[0], model=unescape_text(row[1]), dim=row[2])
            for row in self.rows(driver, statement, values)
        ]

    async def delete_model(self, collection_id: str) -> None:
        """Delete a model."""
        statement = "DELETE FROM vector_models WHERE collection_id = ?"
        await self.store.writing(lambda driver: self.run(driver, statement, (collection_id,)))
