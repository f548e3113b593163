"""Forwards requests to a server unchanged, with audit and guards."""

from collections.abc import Callable

from toolgate.audit import Receipts
from toolgate.catalog import Catalog
from toolgate.errors import RpcError
from toolgate.gateway.execution.content_request import ContentRequest
from toolgate.security.guards import CallGuardChain
from toolgate.types import (
    Caller,
    Json,
    Peer,
    json_object,
)


class ServerForwarder:
    """Sends requests about resources and prompts to their server."""

    def __init__(self, *, catalog: Catalog, receipts: Receipts, guards: CallGuardChain) -> None:
        self._catalog = catalog
        self._receipts = receipts
        self._guards = guards

    async def forward(
        self,
        caller: Caller,
        request: ContentRequest,
        peer: Peer | None,
        recheck: Callable[[], object],
    ) -> Json:
        """Return a server's answer to a request, after the guards.

        Args:
            caller: The caller.
            request: The request.
            peer: The client, if the server can ask it something.
            recheck: Raises if the caller may not send the request; called again if the server
                had to be started and was listed again.

        Raises:
            GuardError: A guard does not allow the arguments or the result.
            UpstreamError: The server failed.
        """
        server, key = request.server, request.key
        with self._receipts.refusals(caller, request.action, key):
            params, noted = await self._checked(caller, request)
        spec = self._catalog.spec(server)
        async with self._receipts.around(
            caller, request.action, server, key, spec=spec, detail=noted
        ) as done:
            try:
                result = await self._catalog.server(server).request(
                    request.method,
                    params,
                    caller=caller,
                    peer=self._guards.for_server(caller, server).peer(key, peer),
                    recheck=recheck,
                )
            except RpcError as error:
                raise self._guards.for_server(caller, server).error(error) from None
            done(result)
            # The current guards: they may have changed while the server was working.
            guards = self._guards.for_server(caller, server)
            result, notes = await guards.result(key, result)
            done(result, notes)
            return result

    async def check(self, caller: Caller, request: ContentRequest) -> None:
        """Check a request that is not sent through `forward`.

        Raises:
            GuardError: A guard does not allow its arguments.
        """
        with self._receipts.refusals(caller, request.action, request.key):
            await self._checked(caller, request)

    async def _checked(self, caller: Caller, request: ContentRequest) -> tuple[Json, Json]:
        """Return the parameters that may be sent, and what is recorded about them."""
        guards = self._guards.for_server(caller, request.server)
        arguments, notes = await guards.arguments(request.key, request.arguments, request.kind)
        is_same = arguments is request.arguments
        params = request.params if is_same else request.with_arguments(arguments)
        if answers := json_object(params.get("inputResponses")):
            passed, more = await guards.answers(request.key, answers)
            params, notes = {**params, "inputResponses": passed}, {**more, **notes}
        return params, notes
