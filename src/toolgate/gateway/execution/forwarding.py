"""Forwards requests to a server unchanged, with audit and call policies."""

from toolgate.audit import Receipts
from toolgate.catalog import (
    Catalog,
)
from toolgate.security.guards import CallGuardChain
from toolgate.types import (
    Caller,
    Json,
    Peer,
)

__all__ = ["ServerForwarder"]


class ServerForwarder:
    """Sends requests about resources and prompts to their server."""

    def __init__(self, *, catalog: Catalog, receipts: Receipts, guards: CallGuardChain) -> None:
        self._catalog = catalog
        self._receipts = receipts
        self._passage = guards

    async def forward(
        self,
        caller: Caller,
        action: str,
        server: str,
        key: str,
        method: str,
        params: Json,
        peer: Peer | None,
    ) -> Json:
        """The answer of a server to a request, as the guards let it through.

        Args:
            caller: Who asks.
            action: What the audit calls it: `read`, `prompt`.
            server: Which server is asked.
            key: What it is about, `server:name` or `server:uri`.
            method: Of MCP.
            params: With the name or URI that the server knows.
            peer: The client, if it can be asked meanwhile.
        """
        async with self._receipts.around(caller, action, server, key) as done:
            result = await self._catalog.request(
                server,
                method,
                params,
                caller=caller,
                peer=self._passage.for_server(caller, server).peer(key, peer),
            )
            done(result)
            # The guards of now: they may have changed while the server was working.
            guards = self._passage.for_server(caller, server)
            result, notes = await guards.result(key, result)
            done(result, notes)
            return result
