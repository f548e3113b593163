"""Quarantined definitions: which wait, why, and the decision about them."""

from toolgate.audit import Receipts
from toolgate.catalog import Catalog
from toolgate.catalog.scanner import Quarantine, QuarantinedEntry, ReplacedDefinition
from toolgate.gateway.visible_catalog import VisibleCatalog
from toolgate.types import Caller, EntryKind, Json

__all__ = ["QuarantineManagement"]


class QuarantineManagement:
    """Lists quarantined definitions and decides about them."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        quarantine: Quarantine,
        visible: VisibleCatalog,
        receipts: Receipts,
    ) -> None:
        self._catalog = catalog
        self._quarantine = quarantine
        self._visible = visible
        self._receipts = receipts

    async def entries(self, caller: Caller, server: str | None = None) -> list[QuarantinedEntry]:
        """What waits for a decision, with what is suspicious about it; None: of all servers.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
        """
        self._visible.must_manage(caller)
        return await self._quarantine.list_quarantined(server)

    async def versions(self, caller: Caller, key: str) -> list[ReplacedDefinition]:
        """Earlier definitions of a tool, newest first.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownToolError: There is no such tool.
        """
        self._visible.must_manage(caller)
        entry = self._visible.tool(caller, key)
        return await self._quarantine.versions(
            entry.server, entry.own_name, entry.listed_definition
        )

    async def decide(
        self, caller: Caller, server: str, name: str, *, accept: bool, kind: EntryKind = "tool"
    ) -> QuarantinedEntry:
        """Approve the present definition of something quarantined, or reject it.

        Args:
            caller: Who decides.
            server: Whose definition it is.
            name: As the server calls it; for resources the URI, for templates the URI template.
            accept: Whether callers may see and use it.
            kind: What it is the definition of.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: There is no such server.
            UnknownEntryError: It is not quarantined.
        """
        self._visible.must_manage(caller)
        self._catalog.server(server)
        detail: Json = {
            "kind": kind,
            "key": f"{server}:{name}",
            "decision": "approved" if accept else "rejected",
        }
        async with self._receipts.change(caller, "approve", detail):
            decided = await self._quarantine.decide(
                server, kind, name, accept=accept, by=caller.caller_id
            )
            await self._catalog.reinspect(server)
        return decided
