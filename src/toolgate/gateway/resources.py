"""Resources of the servers: reading, completion, subscriptions."""

from toolgate.gateway.execution.content_request import (
    ContentRequest,
    completion_request,
    read_request,
)
from toolgate.gateway.execution.forwarding import ServerForwarder
from toolgate.gateway.parts import GatewayContext
from toolgate.types import (
    Caller,
    Json,
    Peer,
    json_object,
)


class ResourceService:
    """Answers `resources/*` and `completion/complete`."""

    def __init__(self, context: GatewayContext, *, forwarder: ServerForwarder) -> None:
        self._catalog = context.catalog
        self._access = context.access
        self._visible = context.visible
        self._forwarder = forwarder
        self._watched: dict[str, int] = {}

    async def read(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        """Answer a `resources/read`.

        Raises:
            GuardError: A guard does not allow it.
            UnknownResourceError: No server offers it to this caller.
            UpstreamError: The server failed.
        """
        shown = str(params.get("uri"))
        server, uri = self._visible.resource(caller, shown)
        request = self._read_request(server, uri, params)
        return await self._forwarder.forward(
            caller, request, peer, lambda: self._visible.resource(caller, shown)
        )

    async def complete(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        """Answer a `completion/complete` for a prompt or a resource template.

        Raises:
            GuardError: A guard does not allow it.
            UnknownPromptError: The prompt does not exist for this caller.
            UnknownResourceError: The template does not exist for this caller.
            UpstreamError: The server failed.
        """
        ref = json_object(params.get("ref"))
        server, target = self._completed(caller, ref)
        if "uri" in ref:
            await self._forwarder.check(caller, self._read_request(server, str(target["uri"]), {}))
        request = completion_request(server, target, params)
        return await self._forwarder.forward(
            caller, request, peer, lambda: self._completed(caller, ref)
        )

    def _completed(self, caller: Caller, ref: Json) -> tuple[str, Json]:
        """The server of the completed prompt or template, and the reference as it names it."""
        if "uri" not in ref:
            entry = self._visible.prompt(caller, str(ref.get("name")))
            return entry.server, {**ref, "name": entry.name}
        uri = str(ref["uri"])
        template = self._catalog.snapshot.templates.get(uri)
        if template and self._access.decide(caller, "read", template.key).allowed:
            return template.server, {**ref, "uri": template.name}
        server, own = self._visible.resource(caller, uri)
        return server, {**ref, "uri": own}

    async def subscribe(self, caller: Caller, uri: str) -> None:
        """Announce updates of a resource to `ChangeNotifier`; counted, see `unsubscribe`.

        Raises:
            GuardError: A guard does not allow it.
            UnknownResourceError: No server offers it to this caller.
            UpstreamError: The server refused.
        """
        server, own = self._visible.resource(caller, uri)
        await self._forwarder.check(caller, self._read_request(server, own, {}))
        self._watched[uri] = self._watched.get(uri, 0) + 1
        if self._watched[uri] == 1:
            try:
                await self._update_subscription(uri)
            except BaseException:
                self._watched[uri] -= 1
                if not self._watched[uri]:
                    del self._watched[uri]
                raise

    async def unsubscribe(self, caller: Caller, uri: str) -> None:
        """Undo one `subscribe`."""
        del caller
        if uri not in self._watched:
            return
        self._watched[uri] -= 1
        if not self._watched[uri]:
            del self._watched[uri]
            await self._update_subscription(uri)

    def _read_request(self, server: str, uri: str, params: Json) -> ContentRequest:
        variables = self._catalog.snapshot.template_variables(server, uri)
        return read_request(server, uri, params, variables)

    async def _update_subscription(self, uri: str) -> None:
        origin = self._catalog.snapshot.resource_of(uri)
        if origin is None:
            return
        server = origin[0]
        origins = [self._catalog.snapshot.resource_of(watched) for watched in self._watched]
        uris = {item[1] for item in origins if item is not None and item[0] == server}
        await self._catalog.subscribe(server, uris)
