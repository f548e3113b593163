"""Quarantined definitions: which ones wait, why, and the decision about them."""

from toolgate.catalog.scanner import Quarantine, QuarantinedEntry, ReplacedDefinition
from toolgate.gateway.parts import GatewayContext
from toolgate.types import Caller, EntryKind, Json


class QuarantineManagement:
    """Lists and decides quarantined definitions."""

    def __init__(self, context: GatewayContext, quarantine: Quarantine) -> None:
        self._catalog = context.catalog
        self._quarantine = quarantine
        self._visible = context.visible
        self._receipts = context.receipts

    async def entries(self, caller: Caller, server: str | None = None) -> list[QuarantinedEntry]:
        """Definitions waiting for a decision, with what is suspicious; None for all servers.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
        """
        self._visible.must_manage(caller)
        return await self._quarantine.list_quarantined(server)

    async def versions(self, caller: Caller, key: str) -> list[ReplacedDefinition]:
        """Earlier definitions of a tool, newest first.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownToolError: The tool does not exist.
        """
        self._visible.must_manage(caller)
        entry = self._visible.tool(caller, key)
        return await self._quarantine.versions(
            entry.server, entry.own_name, entry.listed_definition
        )

    async def decide(
        self, caller: Caller, server: str, name: str, *, accept: bool, kind: EntryKind = "tool"
    ) -> QuarantinedEntry:
        """Approve or reject the current definition of a quarantined entry.

        Args:
            caller: The caller.
            server: The server that the definition is from.
            name: The server's name for it; for resources the URI, for templates the URI template.
            accept: Whether callers may see and use it.
            kind: The kind of entry.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            UnknownServerError: The server does not exist.
            UnknownEntryError: The entry is not quarantined.
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
