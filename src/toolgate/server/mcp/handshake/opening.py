"""Opens and ends handshake-era sessions without the SDK.

The first client of a gateway would otherwise wait a second for the import of the SDK. A session
that is opened here has no session of the SDK, like one that was parked: the first request that
needs the SDK, such as the stream for notifications, creates it from the signed id.
"""

from dataclasses import replace
from typing import cast

from toolgate.base.json_text import dumps
from toolgate.gateway.gateway import Gateway
from toolgate.server.asgi.parsing.headers import HEADERS
from toolgate.server.asgi.parsing.json_parser import Envelope
from toolgate.server.asgi.parsing.messages import Scope, Send, send_json
from toolgate.server.asgi.response import send_empty
from toolgate.server.mcp.handshake.fast_path import accepts_both_types, speaks_handshake
from toolgate.server.mcp.handshake.sessions import HandshakeSessions
from toolgate.server.mcp.methods import client_program
from toolgate.server.mcp.result_shape import handshake_answer
from toolgate.types import HANDSHAKE_VERSIONS, Caller, Json

_HEADER = b"mcp-session-id"


class SessionOpening:
    """Answers `initialize`, `notifications/initialized` and DELETE where no SDK is needed."""

    def __init__(self, gateway: Gateway, sessions: HandshakeSessions) -> None:
        self._gateway = gateway
        self._sessions = sessions

    def accepts(self, envelope: Envelope, scope: Scope) -> bool:
        """Whether `open` can answer a message; anything unusual is left to the SDK's checks."""
        headers: dict[bytes, bytes] = scope[HEADERS]
        return (
            envelope.method == "initialize"
            and envelope.request_id is not None
            and _HEADER not in headers
            and accepts_both_types(headers)
            and speaks_handshake(envelope, headers)
            and not envelope.meta
            and _is_usual(envelope.params)
        )

    async def open(self, envelope: Envelope, caller: Caller, send: Send) -> None:
        """Answer `initialize` with a new session."""
        params = envelope.params
        requested = params["protocolVersion"]
        version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
        client = client_program(params["clientInfo"])
        known = replace(
            caller,
            client=client.name,
            client_version=client.version,
            conversation=caller.conversation or client.name,
        )
        answer = handshake_answer(self._gateway.listing.instructions(known))
        result = answer | {"protocolVersion": version}
        session_id = self._sessions.open(params, caller.caller_id)
        body = dumps({"jsonrpc": "2.0", "id": envelope.request_id, "result": result})
        await send_json(send, 200, body, headers=((_HEADER, session_id.encode()),))

    def completes_handshake(self, session_id: str, envelope: Envelope) -> bool:
        """Whether a message only ends the handshake of a session that has none in the SDK."""
        return envelope.method == "notifications/initialized" and self._sessions.is_parked(
            session_id
        )

    async def end(self, session_id: str, send: Send) -> bool:
        """Answer DELETE; False if the SDK has the session, or if there is none."""
        if not self._sessions.end_parked(session_id):
            return False
        await send_empty(send, 200, ((b"content-length", b"0"), (_HEADER, session_id.encode())))
        return True


def _is_usual(params: Json) -> bool:
    """Whether the parameters of `initialize` have the types of the protocol (2025-11-25)."""
    client, declared = params.get("clientInfo"), params.get("capabilities")
    if not isinstance(client, dict) or not isinstance(declared, dict):
        return False
    texts = [params.get("protocolVersion"), *map(cast("Json", client).get, ("name", "version"))]
    groups = list(cast("Json", declared).values())
    return (
        all(isinstance(text, str) for text in texts)
        and set(cast("Json", client)) <= {"name", "version", "title"}
        and isinstance(cast("Json", client).get("title", ""), str)
        and all(isinstance(group, dict) for group in groups)
        and all(
            isinstance(part, bool if name == "listChanged" else dict)
            for group in groups
            for name, part in group.items()
        )
    )
