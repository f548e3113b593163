"""Correct requests of every kind, from which the fuzzer starts.

REST bodies come from the OpenAPI document and forms from the console's own pages, so what is added
to the gateway is attacked without a change here.
"""

import html
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from tests.fuzz.gateway import AttackedGateway
from tests.fuzz.inputs import FuzzInput
from tests.server.http_gateway import INITIALIZE, headers_for, modern
from toolgate.console.application import PAGES
from toolgate.types import Json

Headers = tuple[tuple[str, str], ...]

_HOST: Final[Headers] = (("host", "127.0.0.1"),)
_ADMIN: Final[Headers] = (*_HOST, ("authorization", "Bearer {admin}"))
_JSON: Final[Headers] = (("content-type", "application/json"),)

_CALLS: Final[tuple[tuple[str, Json], ...]] = (
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "alpha__echo", "arguments": {"text": "hi", "tags": ["a"], "count": 3}}),
    ("tools/call", {"name": "alpha__fail", "arguments": {}}),
    ("tools/call", {"name": "alpha__large", "arguments": {}}),
    ("tools/call", {"name": "tool_discovery", "arguments": {"query": "repeat a text"}}),
    ("tools/call", {"name": "tool_describe", "arguments": {"toolKeys": ["alpha:echo"]}}),
    (
        "tools/call",
        {
            "name": "tool_execute",
            "arguments": {"toolKey": "alpha:echo", "arguments": {"text": "x"}},
        },
    ),
    (
        "tools/call",
        {"name": "tool_read", "arguments": {"calls": [{"toolKey": "alpha:echo"}] * 2}},
    ),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "memo://1"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "alpha__greet", "arguments": {"who": "Ann"}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "alpha__greet"},
            "argument": {"name": "who", "value": "A"},
            "context": {"arguments": {"who": "B"}},
        },
    ),
)
_HANDSHAKE_ONLY: Final[tuple[tuple[str, Json], ...]] = (
    ("logging/setLevel", {"level": "info"}),
    ("resources/subscribe", {"uri": "memo://1"}),
    ("resources/unsubscribe", {"uri": "memo://1"}),
    ("notifications/initialized", {}),
    ("notifications/cancelled", {"requestId": 1, "reason": "no longer needed"}),
    ("notifications/progress", {"progressToken": 1, "progress": 0.5, "total": 1}),
    ("notifications/roots/list_changed", {}),
)
_MODERN_ONLY: Final[tuple[tuple[str, Json], ...]] = (
    ("server/discover", {}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
)


def _handshake(method: str, params: Json) -> Json:
    message: Json = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    if method.startswith("notifications/"):
        del message["id"]
    return message


def mcp_seeds() -> list[FuzzInput]:
    """Requests of both eras to `/mcp`, for every method."""
    seeds: list[FuzzInput] = []
    for method, params in (*_CALLS, *_MODERN_ONLY):
        message = modern(method, params)
        headers = (
            *_ADMIN,
            *((name.lower(), value) for name, value in headers_for(message).items()),
        )
        seeds.append(_post("/mcp", headers, message))
    session = (
        *(*_ADMIN, *_JSON, ("accept", "application/json, text/event-stream")),
        *(("mcp-session-id", "{session}"), ("mcp-protocol-version", "2025-11-25")),
    )
    for method, params in (*_CALLS, *_HANDSHAKE_ONLY):
        seeds.append(_post("/mcp", session, _handshake(method, params)))
    response = {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {}}}
    seeds.append(_post("/mcp", session, response))
    opening = tuple(item for item in session if not item[0].startswith("mcp-"))
    seeds.append(_post("/mcp", opening, INITIALIZE))
    member = tuple((name, value.replace("admin", "member")) for name, value in session[:4])
    seeds.append(_post("/mcp/p/default", member, _handshake("tools/list", {})))
    seeds.append(FuzzInput(target="/mcp", headers=session))
    seeds.append(FuzzInput(method="OPTIONS", target="/mcp", headers=_HOST))
    return seeds


def _post(target: str, headers: Headers, body: Any) -> FuzzInput:
    return FuzzInput(method="POST", target=target, headers=headers, body=orjson.dumps(body))


# REST


async def rest_seeds(attacked: AttackedGateway) -> list[FuzzInput]:
    """A request for every route of the OpenAPI document, and the other paths for programs."""
    answer = await attacked.send(FuzzInput(target="/api/v1/openapi.json", headers=_ADMIN))
    document: Json = orjson.loads(answer.body)
    seeds = [
        FuzzInput(target=path, headers=_ADMIN)
        for path in (
            *("/healthz", "/readyz", "/metrics", "/", "/.well-known/oauth-protected-resource"),
            *("/oauth/callback?code=x&state=y", "/oauth/start?state=x", "/nothing"),
        )
    ]
    seeds.append(
        _post("/catalog/search", (*_ADMIN, *_JSON), {"query": {"text": "repeat"}, "pageSize": 5})
    )
    for template, operations in document["paths"].items():
        for method, operation in operations.items():
            path = "/api/v1" + template.replace("{name}", _NAMES.get(template.split("/")[1], "x"))
            query = urlencode(
                {
                    parameter["name"]: _QUERY_VALUES.get(parameter["name"], "1")
                    for parameter in operation.get("parameters", ())
                    if parameter["in"] == "query"
                }
            )
            content = operation.get("requestBody", {}).get("content", {})
            bodies = list(_bodies(content.get("application/json", {})))
            seeds.extend(
                FuzzInput(
                    method=method.upper(),
                    target=f"{path}?{query}" if query else path,
                    headers=(*_ADMIN, *_JSON),
                    body=b"" if body is None else orjson.dumps(body),
                )
                for body in bodies or [None]
            )
    return seeds


_NAMES: Final = {"servers": "alpha", "index": "alpha", "prompts": "chat", "tokens": "anna"}
_QUERY_VALUES: Final = {"server": "alpha", "key": "alpha:echo", "format": "mcp", "cursor": ""}
_MEMBER_VALUES: Final[Json] = {
    "tool": "alpha:echo",
    "toolKey": "alpha:echo",
    "toolKeys": ["alpha:echo"],
    "query": "repeat a text",
    "server": "alpha",
    "servers": ["alpha"],
    "name": "anna",
    "format": "openai",
    # Nothing listens there, and no process is started for it.
    "config": {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "${env:NONE}"}},
}


def _bodies(content: Json) -> Iterator[Json]:
    """The smallest and the whole body that a schema describes."""
    schema = content.get("schema", {})
    properties: Json = schema.get("properties", {})
    if not properties:
        return
    needed = schema.get("required", list(properties)[:1])
    for names in (needed, list(properties)):
        yield {name: _MEMBER_VALUES.get(name, _sample(properties[name])) for name in names}


def _sample(schema: Json) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = kind if isinstance(kind, str) else kind[0]
    samples: Json = {"integer": 2, "number": 0.5, "boolean": True, "array": ["a"], "object": {}}
    return samples.get(kind, "a text")


# Chat


def openai_seeds() -> list[FuzzInput]:
    """Requests as OpenAI's clients send them."""
    message = {"role": "user", "content": "echo hello"}
    tool = {"type": "function", "function": {"name": "own", "parameters": {"type": "object"}}}
    chat: Json = {"model": "main", "messages": [message]}
    full = {
        **chat,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "own", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            message,
        ],
        "tools": [tool],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.2,
        "max_tokens": 50,
        "metadata": {"thread_id": "t1"},
    }
    responses: Json = {"model": "main", "input": "echo hello", "instructions": "Be brief."}
    headers = (*_ADMIN, *_JSON)
    threaded = (*headers, ("x-toolgate-thread", "t1"))
    return [
        _post("/v1/chat/completions", headers, chat),
        _post("/v1/chat/completions", threaded, {**chat, "stream": True}),
        _post("/v1/chat/completions", headers, full),
        _post("/v1/chat/resume", threaded, {"thread_id": "t1", "answer": "yes"}),
        _post("/v1/responses", headers, responses),
        _post("/v1/responses", headers, {**responses, "stream": True, "input": [message]}),
        *(
            FuzzInput(method=method, target=f"/v1/{path}", headers=headers)
            for method, path in (
                *(("GET", "models"), ("GET", "models/main"), ("GET", "runs/r1")),
                *(("GET", "chat/history?thread_id=t1"), ("DELETE", "chat/history?thread_id=t1")),
                *(("GET", "runs/r1/events"), ("POST", "runs/r1/cancel")),
            )
        ),
    ]


# Console

_FORM: Final = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.DOTALL)
_FIELD: Final = re.compile(r"<(?:input|select|textarea|button)\b([^>]*)>")
_ATTRIBUTE: Final = re.compile(r'([a-z-]+)="([^"]*)"')
_TYPED: Final = {"name": "ben", "project": "default", "tool": "alpha:echo", "text": "hi"}
_COOKIE: Final[Headers] = (*_HOST, ("cookie", "{cookie}"))
_LOGS_OUT: Final = "logout"


async def console_seeds(attacked: AttackedGateway) -> list[FuzzInput]:
    """All pages, and the forms in them as a browser would send them."""
    paths = [route.path for name in PAGES for route in _routes_of(name)]
    seeds: list[FuzzInput] = []
    for path in dict.fromkeys(paths):
        if _LOGS_OUT in path:
            continue
        target = f"/console/{path}".rstrip("/")
        for query in ("", "?tool=alpha%3Aecho&key=alpha%3Aecho&name=alpha&q=repeat"):
            page = FuzzInput(target=target + query, headers=_COOKIE)
            seeds.append(page)
            answer = await attacked.send(page)
            seeds += _forms(target, answer.body.decode())
    return list(dict.fromkeys(seeds))


def _routes_of(name: str) -> Any:
    return import_module(f"toolgate.console.pages.{name}").ROUTES


def _forms(target: str, page: str) -> Iterator[FuzzInput]:
    for attributes, content in _FORM.findall(page):
        form = dict(_ATTRIBUTE.findall(attributes))
        action = html.unescape(form.get("action") or target)
        fields: list[tuple[str, str]] = []
        for field in _FIELD.findall(content):
            known = dict(_ATTRIBUTE.findall(field))
            name, value = known.get("name", ""), html.unescape(known.get("value", ""))
            if name and name != "csrf":
                fields.append((name, value or _TYPED.get(name, "1")))
        if _LOGS_OUT in action:
            continue
        if form.get("method", "get").lower() == "get":
            yield FuzzInput(target=f"{action}?{urlencode(fields)}", headers=_COOKIE)
        else:
            yield FuzzInput(
                method="POST",
                target=action,
                headers=(*_COOKIE, ("content-type", "application/x-www-form-urlencoded")),
                body=b"csrf={csrf}&" + urlencode(fields, quote_via=quote).encode(),
            )


# Bytes


def socket_seeds() -> list[FuzzInput]:
    """Whole HTTP connections: pipelined requests, chunks, and other framing."""
    call = orjson.dumps(_CALLS_OF_LINES[0])
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        b"Mcp-Method: tools/list\r\n"
    )
    sized = head + b"Content-Length: %d\r\n\r\n" % len(call) + call
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    halves = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (call[:50], call[50:]))
    health = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    return [
        FuzzInput(kind="socket", body=body)
        for body in (
            sized,
            chunked + halves + b"0\r\n\r\n",
            chunked + halves + b"0\r\nX-Trailer: 1\r\n\r\n" + health,
            health + sized + health,
            head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(call) + call,
            b"GET /healthz HTTP/1.0\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"GET http://127.0.0.1/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            health[:-2] + b"Connection: close\r\n\r\n" + health,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            health[:-2] + b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n",
        )
    ]


_CALLS_OF_LINES: Final[tuple[Json, ...]] = (
    modern("tools/list"),
    modern("tools/call", {"name": "alpha__echo", "arguments": {"text": "hi"}}, request_id="a"),
)


def stdio_seeds() -> list[FuzzInput]:
    """Lines of clients of both eras."""
    lines = [
        *_CALLS_OF_LINES,
        *(_handshake(method, params) for method, params in (*_CALLS, *_HANDSHAKE_ONLY)),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ]
    return [FuzzInput(kind="stdio", body=orjson.dumps(line)) for line in lines]
