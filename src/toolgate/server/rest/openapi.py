"""The OpenAPI 3.1 document of the REST API.

Paths and their summaries come from the routes themselves, so none is missing; bodies are described
here by route. What is not described takes and gives a JSON object.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

import toolgate
from toolgate.server.rest.audit import AUDIT_QUERY
from toolgate.types import AuditRecord, Json, ServerStatus

__all__ = ["PAGED", "openapi_document"]

Route: TypeAlias = tuple[str, str]
"""Method and path below `/api/v1/`, with `*` for a name."""

PAGED: Final[Mapping[str, str]] = {
    "tools": "tools",
    "servers": "servers",
    "tokens": "tokens",
    "projects": "projects",
    "permissions": "permissions",
    "guards": "guards",
    "held": "held",
    "packs": "packs",
    "groups": "groups",
}
"""Lists that come in pages where `?limit=` is given: the path, and the member with the list."""

_TEXT: Final[Json] = {"type": "string"}
_TEXTS: Final[Json] = {"type": "array", "items": _TEXT}
_BOOL: Final[Json] = {"type": "boolean"}
_NUMBER: Final[Json] = {"type": "number"}
_OBJECT: Final[Json] = {"type": "object"}
_MAYBE: Final[Json] = {"type": ["string", "null"]}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(name: str, of: str) -> Json:
    properties: Json = {name: {"type": "array", "items": _ref(of)}, "next_cursor": _TEXT}
    return {"type": "object", "properties": properties, "required": [name]}


def _body(*required: str, **properties: Json) -> Json:
    schema: Json = {
        "type": "object",
        "properties": {
            name: {**schema, "type": [schema["type"], "null"]}
            if name not in required and isinstance(schema.get("type"), str)
            else schema
            for name, schema in properties.items()
        },
        "additionalProperties": False,
    }
    return {**schema, "required": list(required)} if required else schema


_PROJECT_KEYS: Final[Json] = {
    "servers": _TEXTS,
    "optimization": _TEXT,
    "mode": _TEXT,
    "pinned": _TEXTS,
    "budget_tokens": {"type": "integer"},
    "read_only": _BOOL,
    "read_only_allow": _TEXTS,
    "audit": {"type": "string"},
    "shared_servers": _BOOL,
    "limits": _OBJECT,
}

_GUARD_KEYS: Final[Json] = {
    "tools": _TEXTS,
    "projects": _TEXTS,
    "hint": _TEXT,
    "arguments": _OBJECT,
    "deny": _OBJECT,
    "sql": _OBJECT,
    "max_argument_bytes": {"type": "integer"},
    "max_result_bytes": {"type": "integer"},
    "secrets_in_arguments": _TEXT,
    "secrets_in_results": _TEXT,
    "approver": _TEXT,
    "reason": _TEXT,
}

_REQUESTS: Final[Mapping[Route, Json]] = {
    ("POST", "servers/*/login"): _body(user=_TEXT, project=_TEXT, redirect_uri=_TEXT),
    ("POST", "servers/*/login/finish"): _body(
        "state", state=_TEXT, code=_TEXT, iss=_TEXT, error=_TEXT
    ),
    ("POST", "servers/*/credentials"): _body(
        headers=_OBJECT, env=_OBJECT, user=_TEXT, project=_TEXT
    ),
    ("POST", "discover"): _body(
        "query",
        query={"type": ["string", "array"], "items": _TEXT},
        context=_TEXT,
        limit={"type": "integer", "minimum": 1, "maximum": 50},
        maxResults={"type": "integer"},
        servers=_TEXTS,
        server={"type": ["string", "array", "null"], "items": _TEXT},
        group=_TEXT,
        threshold=_NUMBER,
        include_core=_BOOL,
        explain=_BOOL,
        format=_TEXT,
    ),
    ("POST", "describe"): _body("toolKeys", toolKeys=_TEXTS, indexed=_BOOL, format=_TEXT),
    ("POST", "execute"): _body("toolKey", toolKey=_TEXT, arguments=_OBJECT),
    ("POST", "tokens"): _body(
        "name",
        name=_TEXT,
        projects=_TEXTS,
        roles=_TEXTS,
        groups=_TEXTS,
        user=_TEXT,
        read_only=_BOOL,
        expires_in_s=_NUMBER,
        limits=_OBJECT,
        allow=_TEXTS,
        deny=_TEXTS,
    ),
    ("POST", "tokens/*/rotate"): _body(grace_s=_NUMBER, expires_in_s=_NUMBER),
    ("POST", "tokens/*/revoke"): _body(),
    ("POST", "projects"): _body("name", name=_TEXT, **_PROJECT_KEYS),
    ("POST", "projects/*"): _body(**_PROJECT_KEYS),
    ("POST", "permissions"): _body(
        "effect",
        "patterns",
        "to",
        effect={"enum": ["allow", "deny"]},
        patterns=_TEXTS,
        to=_TEXTS,
        hint=_TEXT,
    ),
    ("POST", "guards"): _body(**_GUARD_KEYS),
    ("POST", "explain"): _body("tool", tool=_TEXT, token=_TEXT, project=_TEXT, query=_TEXT),
    ("POST", "retrieve"): _body(
        "question",
        question=_TEXT,
        history={"type": "array", "items": _OBJECT},
        collections=_TEXTS,
        top_k={"type": "integer"},
        search_type=_TEXT,
        score_threshold=_NUMBER,
        fetch_k={"type": "integer"},
        lambda_mult=_NUMBER,
        rephrase=_BOOL,
        grade=_BOOL,
    ),
    ("POST", "collections"): _body(
        "name",
        name=_TEXT,
        alias=_TEXT,
        description=_TEXT,
        model=_TEXT,
        metric=_TEXT,
        place=_TEXT,
    ),
    ("POST", "collections/*/documents"): _body(
        "source",
        source=_TEXT,
        origin=_TEXT,
        title=_TEXT,
        text=_TEXT,
        content=_TEXT,
        media_type=_TEXT,
        sha256=_TEXT,
        size_bytes={"type": "integer"},
        has_pages=_BOOL,
    ),
    ("POST", "collections/*/remove"): _body(sources=_TEXTS, origins=_TEXTS, documents=_TEXTS),
    ("POST", "collections/*/reindex"): _body(model=_TEXT, metric=_TEXT, place=_TEXT),
    ("POST", "collections/*/settle"): _body(),
    ("POST", "servers"): _body(
        "name", "config", name=_TEXT, config=_OBJECT, save=_BOOL, project=_TEXT
    ),
    ("POST", "servers/*/enable"): _body(),
    ("POST", "servers/*/disable"): _body(),
    ("POST", "servers/*/restart"): _body(),
    ("POST", "servers/*/approve"): _body("tool", tool=_TEXT, approve=_BOOL),
    ("POST", "approvals/*/approve"): _body(code=_TEXT, comment=_TEXT, arguments=_OBJECT),
    ("POST", "approvals/*/reject"): _body(comment=_TEXT),
    ("POST", "mark"): _body("toolKey", "mark", toolKey=_TEXT, mark={"enum": ["right", "wrong"]}),
    ("POST", "index/refresh"): _body(server=_TEXT),
}
"""What bodies may hold."""

_ANSWERS: Final[Mapping[Route, Json]] = {
    ("GET", "me"): _ref("Me"),
    ("GET", "tools"): _list("tools", "Tool"),
    ("GET", "servers"): _list("servers", "Server"),
    ("GET", "tokens"): _list("tokens", "Token"),
    ("POST", "tokens"): _ref("NewToken"),
    ("POST", "tokens/*/rotate"): _ref("NewToken"),
    ("POST", "tokens/*/revoke"): _ref("Token"),
    ("DELETE", "tokens/*"): _ref("Token"),
    ("GET", "projects"): _list("projects", "Project"),
    ("POST", "projects"): _ref("Project"),
    ("POST", "projects/*"): _ref("Project"),
    ("GET", "permissions"): _list("permissions", "Permission"),
    ("POST", "permissions"): _list("permissions", "Permission"),
    ("GET", "guards"): _list("guards", "Guard"),
    ("POST", "guards"): _ref("Guard"),
    ("GET", "approvals"): _list("approvals", "Approval"),
    ("GET", "approvals/*"): _ref("Approval"),
    ("POST", "approvals/*/approve"): _ref("Approval"),
    ("POST", "approvals/*/reject"): _ref("Approval"),
    ("GET", "audit"): _list("records", "AuditRecord"),
    ("GET", "audit/verify"): _ref("Verification"),
    ("POST", "explain"): _ref("Explanation"),
    ("POST", "execute"): _ref("CallResult"),
}
"""What answers hold, where that is more than an object."""

_MADE: Final = frozenset(
    ("POST", resource) for resource in ("tokens", "projects", "permissions", "guards", "servers")
)
_ACCEPTED: Final = frozenset({("POST", "index/refresh")})

_EXAMPLES: Final[Mapping[Route, Json]] = {
    ("POST", "discover"): {"query": "list the open issues", "limit": 3},
    ("POST", "describe"): {"toolKeys": ["github:list_issues"]},
    ("POST", "execute"): {"toolKey": "github:list_issues", "arguments": {"owner": "acme"}},
    ("POST", "tokens"): {"name": "anna", "projects": ["team-web"], "roles": ["member"]},
    ("POST", "tokens/*/rotate"): {"grace_s": 3600},
    ("POST", "projects"): {"name": "team-web", "servers": ["github"]},
    ("POST", "projects/*"): {"read_only": True},
    ("POST", "permissions"): {"effect": "allow", "patterns": ["github:get_*"], "to": ["everyone"]},
    ("POST", "guards"): {"tools": ["mail:send"], "approver": "user", "reason": "Read it first."},
    ("POST", "explain"): {"tool": "github:list_issues", "token": "anna"},
    ("POST", "servers"): {"name": "time", "config": {"command": "uvx", "args": ["a-server"]}},
    ("POST", "servers/*/approve"): {"tool": "list_issues"},
    ("POST", "approvals/*/approve"): {"comment": "Fine."},
    ("POST", "approvals/*/reject"): {"comment": "Use the test shop."},
    ("POST", "mark"): {"toolKey": "github:list_issues", "mark": "right"},
    ("POST", "index/refresh"): {"server": "github"},
}
"""A request that works, for reading and for the test of this document."""

_QUERIES: Final[Mapping[str, Mapping[str, str]]] = {
    "audit": AUDIT_QUERY,
    "approvals": {
        "state": "waiting (default), approved, rejected, used, expired or all.",
        "limit": "At most this many, 1 to 1,000; 100 by default.",
        "cursor": "next_cursor of the page before.",
    },
    "tools": {
        "server": "Only of this server.",
        "format": "mcp, openai or anthropic: definitions ready for a model.",
    },
    "optimization": {"days": "How far back."},
    "cost": {"days": "How far back; 1 by default."},
    "tools/versions": {"key": "The tool, `server:tool`."},
    "tools/usage": {"days": "How far back; 1 by default."},
}
_PAGES: Final[Mapping[str, str]] = {
    "limit": "At most this many, 1 to 1,000; all by default.",
    "cursor": "next_cursor of the page before.",
}


def openapi_document(routes: Mapping[Route, str]) -> Json:
    """The document.

    Args:
        routes: All routes with their docstrings.
    """
    paths: dict[str, Json] = {}
    for (method, path), doc in sorted(routes.items(), key=lambda item: (item[0][1], item[0][0])):
        template = "/" + path.replace("*", "{name}")
        paths.setdefault(template, {})[method.lower()] = _operation(method, path, doc)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Toolgate",
            "version": toolgate.__version__,
            "description": "Discovery and execution of tools, and looking after the gateway.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(method: str, path: str, doc: str) -> Json:
    route = (method, path)
    status = "201" if route in _MADE else "202" if route in _ACCEPTED else "200"
    operation: Json = {
        "operationId": re.sub(r"[^a-z]+", "_", f"{method} {path.replace('*', 'one')}".lower()),
        "summary": _summary(doc) or _plain_summary(method, path),
        "tags": [path.split("/")[0]],
        "parameters": _parameters(method, path),
        "responses": {
            status: {
                "description": "Done.",
                "content": {"application/json": {"schema": _ANSWERS.get(route, _OBJECT)}},
            },
            "default": {
                "description": "It was not done; `detail` says why, `error.code` for machines.",
                "content": {"application/problem+json": {"schema": _ref("Problem")}},
            },
        },
    }
    if method in {"POST", "PATCH", "PUT"}:
        content: Json = {"schema": _REQUESTS.get(route, _OBJECT)}
        if route in _EXAMPLES:
            content["example"] = _EXAMPLES[route]
        operation["requestBody"] = {
            "required": bool(content["schema"].get("required")),
            "content": {"application/json": content},
        }
    return operation


def _parameters(method: str, path: str) -> list[Json]:
    parameters: list[Json] = []
    if "*" in path:
        parameters.append({"name": "name", "in": "path", "required": True, "schema": _TEXT})
    queries = dict(_QUERIES.get(path, {})) if method == "GET" else {}
    if method == "GET" and path in PAGED:
        queries |= _PAGES
    parameters += [
        {"name": name, "in": "query", "description": words, "schema": _TEXT}
        for name, words in queries.items()
    ]
    return parameters


def _summary(doc: str) -> str:
    """The first sentence of a docstring, without the route that it begins with."""
    first = " ".join(doc.strip().split("\n\n")[0].split())
    text = re.sub(r"^`[^`]*`(?:,(?: and)? `[^`]*`[^:;.]*)*[:;.]?\s*", "", first)
    return text[:1].upper() + text[1:] if text else ""


def _plain_summary(method: str, path: str) -> str:
    """For a route whose docstring says no more than the route itself."""
    first, *rest = path.split("/")
    verb = {"GET": "Show", "DELETE": "Remove", "POST": "Make", "PATCH": "Change"}.get(method, "Use")
    if rest and rest[-1] != "*":
        verb = rest[-1].replace("_", " ").capitalize()
    return f"{verb} {'one of ' if '*' in path else ''}{first}."


_TOKEN: Final[Json] = {
    "name": _TEXT,
    "id": _TEXT,
    "prefix": _TEXT,
    "state": {"enum": ["valid", "expired", "revoked"]},
    "user": _MAYBE,
    "projects": _TEXTS,
    "roles": _TEXTS,
    "groups": _TEXTS,
    "read_only": _BOOL,
    "limits": _OBJECT,
    "created_at": _TEXT,
    "expires_at": _MAYBE,
    "rotated_at": _MAYBE,
    "revoked_at": _MAYBE,
    "last_used_at": _MAYBE,
}


def _whole(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _schemas() -> Json:
    return {**_shared_schemas(), **_access_schemas(), **_record_schemas()}


def _shared_schemas() -> Json:
    return {
        "Problem": _whole(
            {
                "type": _TEXT,
                "title": _TEXT,
                "status": {"type": "integer"},
                "detail": _TEXT,
                "instance": _TEXT,
                "error": _whole(
                    {
                        "code": _TEXT,
                        "message": _TEXT,
                        "hint": _TEXT,
                        "retryable": _BOOL,
                        "request_id": _TEXT,
                    }
                ),
            }
        ),
        "Me": _whole(
            {
                "caller": _TEXT,
                "kind": _TEXT,
                "token": _MAYBE,
                "user": _MAYBE,
                "project": _MAYBE,
                "projects": _TEXTS,
                "roles": _TEXTS,
                "groups": _TEXTS,
                "read_only": _BOOL,
                "expires_at": _MAYBE,
            }
        ),
        "Tool": _OBJECT,
        "CallResult": {
            "type": "object",
            "properties": {"content": {"type": "array"}, "isError": _BOOL},
        },
    }


def _access_schemas() -> Json:
    return {
        "Token": _whole(_TOKEN),
        "NewToken": _whole({**_TOKEN, "token": _TEXT}),
        "Project": _whole({"name": _TEXT, "servers": _TEXTS, "settings": _OBJECT, "source": _TEXT}),
        "Permission": _whole(
            {
                "id": _MAYBE,
                "effect": {"enum": ["allow", "deny"]},
                "to": _TEXT,
                "kind": _TEXT,
                "pattern": _TEXT,
                "hint": _MAYBE,
                "source": _TEXT,
            }
        ),
        "Guard": {
            "type": "object",
            "properties": {"id": _MAYBE, **_GUARD_KEYS, "source": _TEXT},
            "required": ["id", "tools", "source"],
        },
    }


def _record_schemas() -> Json:
    return {
        "Approval": _whole(
            {
                "id": _TEXT,
                "state": {"enum": ["waiting", "approved", "rejected", "used", "expired"]},
                "toolKey": _TEXT,
                "arguments": _TEXT,
                "arguments_sha256": _TEXT,
                "reason": _TEXT,
                "who": _TEXT,
                "caller": _TEXT,
                "project": _MAYBE,
                "client": _TEXT,
                "approver": {"enum": ["user", "admin"]},
                "created_at": _TEXT,
                "expires_at": _TEXT,
                "decided_at": _MAYBE,
                "decided_by": _MAYBE,
                "decided_via": _MAYBE,
                "comment": _TEXT,
                "edited": _MAYBE,
                "used_at": _MAYBE,
            }
        ),
        "Explanation": {
            "type": "object",
            "properties": {"visible": _BOOL, "stages": {"type": "array", "items": _OBJECT}},
            "required": ["visible", "stages"],
        },
        "Verification": _whole(
            {
                "records": {"type": "integer"},
                "first": {"type": "integer"},
                "last": {"type": "integer"},
                "unchained": {"type": "integer"},
                "signed": {"type": "integer"},
                "signed_through": {"type": "integer"},
                "foreign": {"type": "integer"},
                "faults": {"type": "array", "items": _OBJECT},
                "whole": _BOOL,
            }
        ),
        "AuditRecord": _of_dataclass(AuditRecord),
        "Server": _of_dataclass(ServerStatus),
    }


def _of_dataclass(kind: type[Any]) -> Json:
    """The schema of a value, as `asdict` writes it."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    return _whole({name: _of_hint(hints[name]) for name in names})


def _of_hint(hint: object) -> Json:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(hint, UnionType) or NoneType in arguments:
        return {"anyOf": [_of_hint(argument) for argument in arguments]}
    if origin in {tuple, list, Sequence}:
        return {"type": "array", "items": _of_hint(arguments[0])}
    plain: Mapping[object, Json] = {
        str: _TEXT,
        bool: _BOOL,
        int: {"type": "integer"},
        float: _NUMBER,
        NoneType: {"type": "null"},
    }
    return plain.get(hint, _OBJECT)
