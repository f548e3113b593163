"""The HTTP endpoint `/mcp`: reads a message, authenticates its caller, and gets a response.

Modern requests go to the fast path if it can respond; all others go to the SDK.
"""

from contextlib import AbstractContextManager, nullcontext

from toolgate.app.app import App
from toolgate.base.tracing import observe_again, take_trace
from toolgate.errors import AccessError, CredentialError
from toolgate.security.access import PresentedCredentials
from toolgate.server.asgi.authentication import (
    ANONYMOUS,
    CALLER,
    IS_RELAYED,
    challenge_headers,
    presented_credentials,
    refusal_data,
    refusal_status,
    resource_metadata,
)
from toolgate.server.asgi.host_check import HostCheck
from toolgate.server.asgi.local_users import LocalKey
from toolgate.server.asgi.open_streams import OpenStreams
from toolgate.server.asgi.parsing.headers import HEADERS, header
from toolgate.server.asgi.parsing.json_parser import (
    INVALID_REQUEST,
    LARGE_BYTES,
    BadMessageError,
    Envelope,
    body_too_large,
    check_envelope,
    error_bytes,
    parse_json_async,
)
from toolgate.server.asgi.parsing.messages import (
    DisconnectedError,
    Receive,
    Scope,
    Send,
    TooLargeError,
    discard_body,
    read_body,
    replay,
    send_json,
)
from toolgate.server.asgi.parsing.unverified_bodies import (
    BodiesError,
    UnverifiedBodies,
    is_small,
)
from toolgate.server.asgi.request_context import BODY_BYTES, JSONRPC_ID, path_template
from toolgate.server.asgi.response import send_empty
from toolgate.server.asgi.running_requests import OVERLOADED, SHUTTING_DOWN, RunningRequests
from toolgate.server.mcp.fast_path import FastPath
from toolgate.server.mcp.handshake.fast_path import SessionFastPath
from toolgate.server.mcp.handshake.opening import SessionOpening
from toolgate.server.mcp.handshake.session_guard import SessionGuard
from toolgate.server.mcp.handshake.sessions import SESSION_NOT_FOUND, HandshakeSessions
from toolgate.server.mcp.methods import client_program
from toolgate.server.mcp.prebuilt_lists import fill_placeholder
from toolgate.server.mcp.result_shape import ACCESS_CODE, CLIENT_INFO, FORBIDDEN_CODE
from toolgate.server.mcp.sdk_errors import explain_errors, media_type_fault
from toolgate.server.mcp.sdk_loader import SdkLoader
from toolgate.server.mcp.summarize_body import FULL_PARAMS, summarize_body
from toolgate.types import Caller, Json, json_object

_CALLER = "toolgate.caller"
_OPENING = "toolgate.opening"

_ANONYMOUS_MAX_BYTES = 4 * 2**20
"""Largest body in bytes that is read from a client without a token in its headers; chosen."""

_SHUTTING_DOWN_CODE = -31040
"""Toolgate's own code, outside the range that JSON-RPC reserves."""
_OVERLOADED_CODE = -31041
"""Toolgate's own code, outside the range that JSON-RPC reserves."""

_DUPLICATE_ID = (
    "A request with the id {!r:.100} is still running in this session."
    " Allowed: an id that no running request has. Count the ids up."
)
_TOO_MANY_BODIES = (
    "Too many large requests without a token in their headers are being read."
    " Send the token in the header Authorization, or repeat the request."
)
_BODIES_WAIT_S = 10
"""Seconds after which such a request may be repeated; chosen: idle ones are closed by then."""
_CREDENTIAL_IN_URL = (
    " A token in the address is not read: addresses stand in logs. Send it as a header instead."
)
_NO_CONTEXT = nullcontext()


class McpEndpoint:
    """Handles requests to `/mcp` and `/mcp/p/PROJECT`."""

    def __init__(
        self,
        app: App,
        *,
        host_check: HostCheck,
        local_key: LocalKey,
        requests: RunningRequests,
        streams: OpenStreams,
        sdk: SdkLoader,
    ) -> None:
        self._settings = app.settings.serve
        self._authn = app.settings.authn
        self._admission = app.gateway.admission
        self._host_check = host_check
        self._local_key = local_key
        self._requests = requests
        self._streams = streams
        self._unverified = UnverifiedBodies()
        self._fast_path = FastPath(app.gateway)
        self.sessions = HandshakeSessions(app.signer, sdk)
        """Sessions of clients of the handshake era."""
        self._session_guard = SessionGuard(self.sessions)
        self._session_fast_path = SessionFastPath(app.gateway, self.sessions)
        self._opening = SessionOpening(app.gateway, self.sessions)
        self._sdk = sdk
        self._permissions = app.permissions
        app.permissions.on_session_end(self._end_elsewhere)

    def _end_elsewhere(self, session_id: str) -> None:
        """End a session that has ended in another process."""
        self._session_fast_path.end_session(session_id)
        self.sessions.end_elsewhere(session_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        refusal = self._host_check.check(scope)
        if refusal is not None:
            body = error_bytes(None, INVALID_REQUEST, refusal.message)
            await send_json(send, refusal.status, body)
            return
        is_relay = self._local_key.is_relay(scope)
        if scope["method"] != "POST":
            credentials = presented_credentials(scope, {}, is_relay=is_relay)
            if await self._authenticate(scope, send, credentials, None):
                session_id = header(scope, b"mcp-session-id") or ""
                if scope["method"] == "DELETE":
                    self._session_fast_path.end_session(session_id)
                    if await self._opening.end(session_id, send):
                        await self._permissions.announce_session_end(session_id)
                        return
                with self._streams.watched(credentials, scope[_CALLER]):
                    await self._to_sdk(scope, receive, explain_errors(send, scope, None))
                if scope["method"] == "DELETE" and self.sessions.has_ended(session_id):
                    await self._permissions.announce_session_end(session_id)
            return
        read = await self._read(scope, receive, send, is_relay=is_relay)
        if read is None:
            return
        body, envelope = read
        meta = envelope.meta
        with _trace_named_in(meta, scope):
            client, version = client_program(meta.get(CLIENT_INFO))
            credentials = presented_credentials(
                scope, meta, client=client, client_version=version, is_relay=is_relay
            )
            if not await self._authenticate(scope, send, credentials, envelope):
                return
            IS_RELAYED.set(is_relay)
            watched = _NO_CONTEXT
            if envelope.method == "subscriptions/listen":  # it stays open, so access may end first
                watched = self._streams.watched(credentials, scope[_CALLER])
            share = scope[_CALLER].caller_id if self._admission.required else credentials.client
            if envelope.request_id is not None and (wait_s := self._requests.refusal_wait_s(share)):
                await _refuse_overload(send, envelope.request_id, wait_s)
                return
            with self._requests.counted(share), watched:
                request = self._fast_path.accepted(envelope, scope["headers"], scope[_CALLER])
                if request is not None:
                    await self._fast_path.serve(request, receive, send)
                elif not await self._answered_without_sdk(scope, receive, send, envelope):
                    await self._answer_by_sdk(scope, receive, send, body, envelope.message)

    async def refuse(
        self, scope: Scope, send: Send, error: AccessError, request_id: object = None
    ) -> None:
        """Respond to a request whose caller is refused."""
        text = str(error)
        if isinstance(error, CredentialError) and b"token=" in scope.get("query_string", b""):
            text += _CREDENTIAL_IN_URL
        code = ACCESS_CODE if isinstance(error, CredentialError) else FORBIDDEN_CODE
        body = error_bytes(request_id, code, text, refusal_data(error))
        headers = challenge_headers(error, scope, self._authn.resource)
        await send_json(send, refusal_status(error), body, headers=headers)

    def metadata(self, scope: Scope) -> Json | None:
        """Return the metadata that tells clients how to log in (RFC 9728)."""
        return resource_metadata(scope, self._authn.resource, self._admission.issuers)

    async def _read(
        self, scope: Scope, receive: Receive, send: Send, *, is_relay: bool
    ) -> tuple[bytes, Envelope] | None:
        """Return the body and its message; None if a response was sent or the client left."""
        max_bytes = self._settings.max_body_bytes
        discarding = discard_body(send, scope, receive)
        try:
            # A small body is read first in any case: its message may contain the token.
            if is_relay or is_small(scope) or await self._is_known(scope):
                body, envelope = await self._parsed(scope, receive, max_bytes)
            else:
                max_bytes = min(max_bytes, _ANONYMOUS_MAX_BYTES)
                with self._unverified.limited(receive) as receive_counted:
                    body, envelope = await self._parsed(scope, receive_counted, max_bytes)
        except DisconnectedError:
            return None
        except AccessError as refusal:
            await self.refuse(scope, discarding, refusal)
            return None
        except BadMessageError as error:
            text = error_bytes(error.request_id, error.rpc_code, error.message)
            await send_json(send, 400, text)
            return None
        except TooLargeError:
            error = body_too_large(max_bytes)
            text = error_bytes(None, error.rpc_code, error.message)
            response = send_json(discarding, 413, text, headers=((b"connection", b"close"),))
        except BodiesError:
            response = _refuse_overload(discarding, None, _BODIES_WAIT_S, _TOO_MANY_BODIES)
        else:
            return await self._accepted(scope, send, body, envelope)
        await response  # not above: while an exception is handled, its body stays in memory
        return None

    async def _accepted(
        self, scope: Scope, send: Send, body: bytes, envelope: Envelope
    ) -> tuple[bytes, Envelope] | None:
        """Return a message that was read, unless its type is wrong or the gateway is draining."""
        scope[JSONRPC_ID] = message_id = envelope.request_id
        is_plain = scope[HEADERS].get(b"content-type") == b"application/json"
        if not is_plain and (fault := media_type_fault(scope)):
            await send_json(send, 415, error_bytes(message_id, INVALID_REQUEST, fault))
            return None
        if self._requests.is_draining and message_id is not None:
            text = error_bytes(message_id, _SHUTTING_DOWN_CODE, SHUTTING_DOWN)
            await send_json(send, 503, text, headers=((b"retry-after", b"5"),))
            return None
        return body, envelope

    async def _parsed(
        self, scope: Scope, receive: Receive, max_bytes: int
    ) -> tuple[bytes, Envelope]:
        body = await read_body(scope, receive, max_bytes=max_bytes)
        scope[BODY_BYTES] = len(body)
        message = await parse_json_async(body, max_depth=self._settings.max_depth)
        return body, check_envelope(message)

    async def _is_known(self, scope: Scope) -> bool:
        """Whether the headers alone prove who sends a request."""
        return await self._admission.is_known(presented_credentials(scope, {}))

    async def _authenticate(
        self,
        scope: Scope,
        send: Send,
        credentials: PresentedCredentials,
        envelope: Envelope | None,
    ) -> bool:
        """Store the caller in the scope; False if the request was refused.

        A refusal is sent at once and completely, because some clients would wait forever
        otherwise.
        """
        try:
            caller = await self._admission.authenticate(credentials)
        except AccessError as error:
            anonymous = self._anonymous_caller(scope, credentials, envelope, error)
            if anonymous is None:
                self._admission.note_refusal(error, credentials)
                message_id = None if envelope is None else envelope.message.get("id")
                await self.refuse(scope, send, error, message_id)
                return False
            caller = anonymous
        is_checked = self._admission.required and not credentials.is_relay
        if is_checked and not self._session_guard.may_use(scope, caller):
            body = error_bytes(scope.get(JSONRPC_ID), INVALID_REQUEST, SESSION_NOT_FOUND)
            await send_json(send, 404, body)
            return False
        scope[_CALLER] = caller
        CALLER.set(caller)
        return True

    def _anonymous_caller(
        self,
        scope: Scope,
        credentials: PresentedCredentials,
        envelope: Envelope | None,
        error: AccessError,
    ) -> Caller | None:
        """Return a caller without rights, for messages that clients send without a token.

        Clients that send their token in `_meta` send notifications without it; a notification
        starts nothing and gets no response. A relay may open a session before its client has
        sent a token.
        """
        is_notification = envelope is not None and "id" not in envelope.message
        if is_notification and credentials.authorization is None:
            owner = self._session_guard.owner_of(scope)
            if owner is not None:
                return Caller(caller_id=owner, identity=ANONYMOUS)
        if credentials.is_relay and _opens_session(envelope, error):
            return Caller(caller_id="", client=credentials.client, identity=ANONYMOUS)
        return None

    async def _answered_without_sdk(
        self, scope: Scope, receive: Receive, send: Send, envelope: Envelope
    ) -> bool:
        """Respond without the SDK; False if it has to respond."""
        session_id = header(scope, b"mcp-session-id")
        if session_id is None:
            if IS_RELAYED.get() or not self._opening.accepts(envelope, scope):
                return False
            await self._opening.open(envelope, scope[_CALLER], send)
            return True
        path = self._session_fast_path
        if envelope.request_id is None:
            if self._opening.completes_handshake(session_id, envelope):
                is_taken = True
            elif envelope.method == "notifications/cancelled":
                is_taken = path.cancel(session_id, envelope.params.get("requestId"))
            else:
                is_answer = "method" not in envelope.message
                is_taken = is_answer and path.take_answer(session_id, envelope.message)
            if is_taken:
                await send_empty(send, 202, ((b"content-length", b"0"),))
            return is_taken
        request = path.accepted(envelope, scope, scope[_CALLER])
        if request is None:
            return False
        with self._session_guard.unique_request(scope, request.request_id) as is_unique:
            if is_unique:
                await path.serve(request, receive, send)
            else:
                await _refuse_repeated_id(send, request.request_id)
        return True

    async def _answer_by_sdk(
        self, scope: Scope, receive: Receive, send: Send, body: bytes, message: Json
    ) -> None:
        request_id = scope[JSONRPC_ID]
        if len(body) > LARGE_BYTES and "method" in message:
            scope = {**scope, FULL_PARAMS: message.get("params")}
            body = summarize_body(message)
        with self._session_guard.unique_request(scope, request_id) as is_unique:
            if not is_unique:
                await _refuse_repeated_id(send, request_id)
                return
            if not IS_RELAYED.get() and message.get("method") == "initialize":
                scope[_OPENING] = json_object(message.get("params"))
            try:
                await self._to_sdk(
                    scope, replay(body, receive), explain_errors(send, scope, request_id), message
                )
            finally:
                # Objects of the SDK hold the scope until garbage collection.
                scope.pop(FULL_PARAMS, None)

    async def _to_sdk(
        self, scope: Scope, receive: Receive, send: Send, message: Json | None = None
    ) -> None:
        if self._admission.required:
            send = self._session_guard.recording_owner(send, scope[_CALLER])
        session = header(scope, b"mcp-session-id")
        if session is not None:
            async with self.sessions.entered(session, scope, send, message) as send_back:
                await self._sdk(scope, receive, fill_placeholder(send_back, scope))
            return
        if _OPENING in scope:
            opening = scope.pop(_OPENING)
            send = self.sessions.assign_id(send, opening, scope[_CALLER].caller_id)
        await self._sdk(scope, receive, fill_placeholder(send, scope))


async def _refuse_repeated_id(send: Send, request_id: object) -> None:
    text = _DUPLICATE_ID.format(request_id)
    await send_json(send, 400, error_bytes(request_id, INVALID_REQUEST, text))


async def _refuse_overload(
    send: Send, request_id: object, wait_s: int, reason: str = OVERLOADED
) -> None:
    data = {"code": "overloaded", "retryable": True}
    text = error_bytes(request_id, _OVERLOADED_CODE, reason, data)
    await send_json(send, 503, text, headers=((b"retry-after", b"%d" % wait_s),))


def _trace_named_in(meta: Json, scope: Scope) -> AbstractContextManager[None]:
    """Join the trace that the message names, within this context."""
    if "traceparent" not in meta:
        return _NO_CONTEXT
    take_trace(meta["traceparent"], meta.get("tracestate"))
    return observe_again("request", method=scope["method"], path=path_template(scope["path"]))


def _opens_session(envelope: Envelope | None, error: AccessError) -> bool:
    """Whether a relay may pass on a message before its client has sent a token.

    Clients that send a token in `_meta` of each request do so from their first request on, other
    than `initialize` and `ping`.
    """
    if not isinstance(error, CredentialError) or error.was_presented:
        return False
    return envelope is None or envelope.method in {"initialize", "ping"}
