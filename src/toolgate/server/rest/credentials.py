"""REST routes for server credentials; no response contains a secret."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping

from toolgate.errors import ArgumentError
from toolgate.security.credentials import Logins, LoginView
from toolgate.types import Caller, Json, json_object

__all__ = ["LOGINS", "LoginAnswer"]

LoginAnswer = Callable[
    [Logins, Caller, tuple[str, ...], Mapping[str, str], Json], Awaitable[tuple[int, object]]
]


async def _all(
    logins: Logins, caller: Caller, _names: tuple[str, ...], query: Mapping[str, str], _body: Json
) -> tuple[int, object]:
    """`GET credentials`: the caller's own, or all for who looks after them; takes `?server=`."""
    views = await logins.list(caller, query.get("server"))
    return 200, {"credentials": [login_json(view) for view in views]}


async def _begin(
    logins: Logins, caller: Caller, names: tuple[str, ...], _query: Mapping[str, str], body: Json
) -> tuple[int, object]:
    """`POST servers/NAME/login`: begin a login; `user`, `project`, `redirect_uri`."""
    fields = _texts(body, "user", "project", "redirect_uri")
    begun = await logins.begin(
        caller,
        names[0],
        user=fields.get("user", ""),
        project=fields.get("project", ""),
        redirect=fields.get("redirect_uri", ""),
    )
    return 200, dataclasses.asdict(begun)


async def _finish(
    logins: Logins, caller: Caller, names: tuple[str, ...], _query: Mapping[str, str], body: Json
) -> tuple[int, object]:
    """`POST servers/NAME/login/finish`: bring what came back: `state`, `code`, `iss`, `error`."""
    del names  # the state names the login
    fields = _texts(body, "state", "code", "iss", "error")
    if "state" not in fields:
        raise ArgumentError("Member 'state' is missing.", allowed="It is a text.")
    view = await logins.finish(
        state=fields["state"],
        code=fields.get("code", ""),
        error=fields.get("error", ""),
        iss=fields.get("iss"),
        caller=caller,
    )
    return 200, login_json(view)


async def _give(
    logins: Logins, caller: Caller, names: tuple[str, ...], _query: Mapping[str, str], body: Json
) -> tuple[int, object]:
    """`POST servers/NAME/credentials`: keep `headers` or `env`, by name."""
    fields = _texts(
        {name: value for name, value in body.items() if name not in {"headers", "env"}},
        "user",
        "project",
        allowed=("headers", "env", "user", "project"),
    )
    view = await logins.give(
        caller,
        names[0],
        headers=_pairs(body, "headers"),
        env=_pairs(body, "env"),
        user=fields.get("user", ""),
        project=fields.get("project", ""),
    )
    return 200, login_json(view)


async def _remove(
    logins: Logins, caller: Caller, names: tuple[str, ...], query: Mapping[str, str], _body: Json
) -> tuple[int, object]:
    """`DELETE servers/NAME/credentials`: forget what is shown; takes `?user=` and `?project=`."""
    gone = await logins.remove(
        caller, names[0], user=query.get("user", ""), project=query.get("project", "")
    )
    return 200, {"server": names[0], "removed": gone}


LOGINS: Mapping[tuple[str, str], LoginAnswer] = {
    ("GET", "credentials"): _all,
    ("POST", "servers/*/login"): _begin,
    ("POST", "servers/*/login/finish"): _finish,
    ("POST", "servers/*/credentials"): _give,
    ("DELETE", "servers/*/credentials"): _remove,
}


def login_json(view: LoginView) -> Json:
    """A credential as JSON."""
    return dataclasses.asdict(view)


def _texts(body: Json, *names: str, allowed: tuple[str, ...] = ()) -> dict[str, str]:
    unknown = sorted(body.keys() - set(names))
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r:.60}.",
            allowed=f"Allowed: {', '.join(allowed or names)}.",
        )
    fields = {name: value for name, value in body.items() if value is not None}
    for name, value in fields.items():
        if not isinstance(value, str):
            # What came is not shown: it may be a secret in the wrong place.
            raise ArgumentError(f"Member {name!r} is no text.")
    return fields


def _pairs(body: Json, name: str) -> dict[str, str]:
    value: object = body.get(name)
    pairs = json_object(value)
    is_object = value is None or isinstance(value, dict)
    if not is_object or not all(isinstance(item, str) for item in pairs.values()):
        raise ArgumentError(f"Member {name!r} is no object of texts.")
    return pairs
