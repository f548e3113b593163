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
        self._guards = guards

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
        """The answer of a server to a request, after the call policies.

        Args:
            caller: Who sends the request.
            action: Its name in the audit: `read`, `prompt`.
            server: The name of the server.
            key: Its target, `server:name` or `server:uri`.
            method: The MCP method.
            params: Parameters, with the name or URI on that server.
            peer: The client, if the server can ask it something.
        """
        async with self._receipts.around(caller, action, server, key) as done:
            result = await self._catalog.request(
                server,
                method,
                params,
                caller=caller,
                peer=self._guards.for_server(caller, server).peer(key, peer),
            )
            done(result)
            # The present guards: they may have changed while the server was working.
            guards = self._guards.for_server(caller, server)
            result, notes = await guards.result(key, result)
            done(result, notes)
            return result
