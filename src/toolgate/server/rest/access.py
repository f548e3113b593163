"""REST routes for tokens, projects, permissions, call policies and `explain`.

Answers name tokens by name and public part; the token itself is in the answer that makes it, and
nowhere else.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolgate.errors import ArgumentError
from toolgate.gateway.gateway import Gateway
from toolgate.security.access import AccessAdmin, AccessRule, NewToken, ProjectView
from toolgate.security.authn import identity_of
from toolgate.settings import GuardTable
from toolgate.store import StoredToken
from toolgate.types import DEFAULT_PROJECT, LOCAL, Caller, Json, json_array

__all__ = ["ACCESS"]

Answer = Callable[[Gateway, Caller, tuple[str, ...], Json], Awaitable[tuple[int, object]]]

_TEXTS = "a list of texts"


async def _me(_gateway: Gateway, caller: Caller, _names: tuple[str, ...], _body: Json) -> Any:
    """`GET me`: who the gateway takes the caller for."""
    identity = caller.identity
    return 200, {
        "caller": identity.caller_id,
        "kind": identity.kind,
        "token": identity.token or None,
        "user": identity.user or None,
        "project": None if caller.project_id == DEFAULT_PROJECT else caller.project_id,
        "projects": list(identity.projects),
        "roles": list(identity.roles),
        "groups": list(identity.groups),
        "read_only": identity.read_only,
        "expires_at": identity.expires_at,
    }


# Tokens


async def _tokens(gateway: Gateway, caller: Caller, _names: tuple[str, ...], _body: Json) -> Any:
    """`GET tokens`."""
    return 200, {"tokens": [_token(row) for row in await gateway.admin.tokens(caller)]}


async def _create_token(
    gateway: Gateway, caller: Caller, _names: tuple[str, ...], body: Json
) -> Any:
    """`POST tokens`: make one; the answer is the only one that has it."""
    fields = _read(
        body,
        name="text",
        projects="texts",
        roles="texts",
        groups="texts",
        user="text",
        read_only="bool",
        expires_in_s="number",
        limits="object",
        allow="texts",
        deny="texts",
    )
    if "name" not in fields:
        raise ArgumentError("Member 'name' is missing.", allowed="It is a text.")
    return 201, _new_token(await gateway.admin.create_token(caller, fields.pop("name"), **fields))


async def _rotate_token(
    gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json
) -> Any:
    """`POST tokens/NAME/rotate`: another secret under the same name."""
    fields = _read(body, grace_s="number", expires_in_s="number")
    return 200, _new_token(await gateway.admin.rotate_token(caller, names[0], **fields))


async def _revoke_token(
    gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json
) -> Any:
    """`POST tokens/NAME/revoke`: refused from the next request on."""
    _read(body)
    return 200, _token(await gateway.admin.revoke_token(caller, names[0]))


async def _delete_token(
    gateway: Gateway, caller: Caller, names: tuple[str, ...], _body: Json
) -> Any:
    """`DELETE tokens/NAME`: with the rules for it alone."""
    return 200, _token(await gateway.admin.delete_token(caller, names[0]))


# Projects


async def _projects(gateway: Gateway, caller: Caller, _names: tuple[str, ...], _body: Json) -> Any:
    """`GET projects`."""
    return 200, {"projects": [_project(view) for view in await gateway.admin.projects(caller)]}


async def _create_project(
    gateway: Gateway, caller: Caller, _names: tuple[str, ...], body: Json
) -> Any:
    """`POST projects`: make one, with `name` and what it sets."""
    settings = _project_settings(body)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise ArgumentError("Member 'name' is missing.", allowed="It is a text.")
    view = await gateway.admin.save_project(caller, name, settings=settings, new=True)
    return 201, _project(view)


async def _set_project(gateway: Gateway, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST projects/NAME`: change what it sets.

    Null goes back to what holds for all, but for `optimization`, where it is no search and an empty
    text goes back.
    """
    settings = _project_settings(body)
    return 200, _project(await gateway.admin.save_project(caller, names[0], settings=settings))


async def _delete_project(
    gateway: Gateway, caller: Caller, names: tuple[str, ...], _body: Json
) -> Any:
    """`DELETE projects/NAME`."""
    await gateway.admin.delete_project(caller, names[0])
    return 200, {"name": names[0]}


# Permissions


async def _permissions(
    gateway: Gateway, caller: Caller, _names: tuple[str, ...], _body: Json
) -> Any:
    """`GET permissions`: all rules, those of the file too."""
    return 200, {"permissions": [_rule(rule) for rule in await gateway.admin.permissions(caller)]}


async def _add_permissions(
    gateway: Gateway, caller: Caller, _names: tuple[str, ...], body: Json
) -> Any:
    """`POST permissions`: add rules, by `effect`, `patterns`, `to`, `hint`."""
    fields = _read(body, effect="text", patterns="texts", to="texts", hint="text")
    rules = await gateway.admin.add_permissions(
        caller,
        effect=fields.get("effect", ""),
        patterns=fields.get("patterns", ()),
        to=fields.get("to", ()),
        hint=fields.get("hint", ""),
    )
    return 201, {"permissions": [_rule(rule) for rule in rules]}


async def _remove_permission(
    gateway: Gateway, caller: Caller, names: tuple[str, ...], _body: Json
) -> Any:
    """`DELETE permissions/ID`."""
    await gateway.admin.remove_permissions(caller, [names[0]])
    return 200, {"id": names[0]}


# Guards


async def _guards(gateway: Gateway, caller: Caller, _names: tuple[str, ...], _body: Json) -> Any:
    """`GET guards`: all guards around calls, those of the file too."""
    return 200, {"guards": [_guard(*entry) for entry in await gateway.admin.guards(caller)]}


async def _add_guard(gateway: Gateway, caller: Caller, _names: tuple[str, ...], body: Json) -> Any:
    """`POST guards`: add one, by the keys of `[[guard]]`."""
    fields = {name: value for name, value in body.items() if value is not None}
    return 201, _guard(*await gateway.admin.add_guard(caller, fields))


async def _remove_guard(
    gateway: Gateway, caller: Caller, names: tuple[str, ...], _body: Json
) -> Any:
    """`DELETE guards/ID`; one of the file goes only with its lines there."""
    await gateway.admin.remove_guard(caller, names[0])
    return 200, {"id": names[0]}


async def _explain(gateway: Gateway, caller: Caller, _names: tuple[str, ...], body: Json) -> Any:
    """`POST explain`: why somebody sees a tool; `tool`, `token` (by name or itself), `project`."""
    fields = _read(body, tool="text", token="text", project="text", query="text")  # noqa: S106
    if not fields.get("tool"):
        raise ArgumentError("Member 'tool' is missing.", allowed="It is the key of a tool.")
    identity, problem = LOCAL, ""
    if fields.get("token"):
        token = await gateway.admin.token_named(caller, fields["token"])
        identity, problem = identity_of(token), gateway.admin.problem_of(token)
    return 200, await gateway.manage.visibility.explain(
        caller,
        fields["tool"],
        identity=identity,
        project=fields.get("project", ""),
        query=fields.get("query", ""),
        problem=problem,
    )


ACCESS: Mapping[tuple[str, str], Answer] = {
    ("GET", "me"): _me,
    ("GET", "tokens"): _tokens,
    ("POST", "tokens"): _create_token,
    ("POST", "tokens/*/rotate"): _rotate_token,
    ("POST", "tokens/*/revoke"): _revoke_token,
    ("DELETE", "tokens/*"): _delete_token,
    ("GET", "projects"): _projects,
    ("POST", "projects"): _create_project,
    ("POST", "projects/*"): _set_project,
    ("DELETE", "projects/*"): _delete_project,
    ("GET", "permissions"): _permissions,
    ("POST", "permissions"): _add_permissions,
    ("DELETE", "permissions/*"): _remove_permission,
    ("GET", "guards"): _guards,
    ("POST", "guards"): _add_guard,
    ("DELETE", "guards/*"): _remove_guard,
    ("POST", "explain"): _explain,
}
"""By method and path below `/api/v1/`; `*` is a name."""


def _token(row: StoredToken) -> Json:
    state = "revoked" if row.revoked_at else "expired" if AccessAdmin.problem_of(row) else "valid"
    return {
        "name": row.name,
        "id": row.token_id,
        "prefix": row.prefix,
        "state": state,
        "user": row.user or None,
        "projects": list(row.projects),
        "roles": list(row.roles),
        "groups": list(row.groups),
        "read_only": row.read_only,
        "limits": dict(row.limits),
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "rotated_at": row.rotated_at,
        "revoked_at": row.revoked_at,
        "last_used_at": row.last_used_at,
    }


def _new_token(token: NewToken) -> Json:
    return {**_token(token.row), "token": token.secret}


def _project_settings(body: Json) -> Json:
    """What a project sets; in JSON no search is null."""
    if "optimization" in body and body["optimization"] is None:
        return {**body, "optimization": "off"}
    return dict(body)


def _project(view: ProjectView) -> Json:
    settings = dataclasses.asdict(view.settings)
    del settings["servers"]
    return {
        "name": view.name,
        "servers": list(view.servers),
        "settings": {
            key: None if key == "optimization" and value == "off" else value
            for key, value in settings.items()
            if _is_set(key, value)
        },
        "source": view.source,
    }


def _is_set(key: str, value: object) -> bool:
    return not value if key == "shared_servers" else bool(value)


def _rule(rule: AccessRule) -> Json:
    return {
        "id": rule.permission_id or None,
        "effect": rule.effect,
        "to": rule.who,
        "kind": rule.kind,
        "pattern": rule.pattern,
        "hint": rule.hint or None,
        "source": rule.source,
    }


def _guard(guard_id: str, table: GuardTable) -> Json:
    keys = {name: value for name, value in dataclasses.asdict(table).items() if value}
    return {"id": guard_id or None, **keys}


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "text": (str, "a text"),
    "texts": (list, _TEXTS),
    "bool": (bool, "true or false"),
    "number": ((int, float), "a number"),
    "object": (dict, "an object"),
}


def _read(body: Json, **members: str) -> Json:
    """The members that are there, after a check of all."""
    unknown = sorted(body.keys() - members.keys())
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r:.60}.",
            allowed=f"Allowed: {', '.join(members)}." if members else "No member is allowed here.",
        )
    fields: Json = {name: value for name, value in body.items() if value is not None}
    for name, value in fields.items():
        kind, words = _KINDS[members[name]]
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if members[name] == "texts":
            fits = fits and all(isinstance(item, str) for item in json_array(value))
        if not fits:
            # What came is not shown: it may be a token in the wrong place.
            raise ArgumentError(f"Member {name!r} must be {words}.")
    return fields
