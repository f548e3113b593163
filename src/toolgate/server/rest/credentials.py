"""Credentials of servers in the REST door; no answer holds one."""

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
    found = await logins.list(caller, query.get("server"))
    return 200, {"credentials": [shown(view) for view in found]}


async def _begin(
    logins: Logins, caller: Caller, names: tuple[str, ...], _query: Mapping[str, str], body: Json
) -> tuple[int, object]:
    """`POST servers/NAME/login`: begin a login; `user`, `project`, `redirect_uri`."""
    given = _texts(body, "user", "project", "redirect_uri")
    begun = await logins.begin(
        caller,
        names[0],
        user=given.get("user", ""),
        project=given.get("project", ""),
        redirect=given.get("redirect_uri", ""),
    )
    return 200, dataclasses.asdict(begun)


async def _finish(
    logins: Logins, caller: Caller, names: tuple[str, ...], _query: Mapping[str, str], body: Json
) -> tuple[int, object]:
    """`POST servers/NAME/login/finish`: bring what came back: `state`, `code`, `iss`, `error`."""
    del names  # the state names the login
    given = _texts(body, "state", "code", "iss", "error")
    if "state" not in given:
        raise ArgumentError("Member 'state' is missing.", allowed="It is a text.")
    view = await logins.finish(
        state=given["state"],
        code=given.get("code", ""),
        error=given.get("error", ""),
        iss=given.get("iss"),
        caller=caller,
    )
    return 200, shown(view)


async def _give(
    logins: Logins, caller: Caller, names: tuple[str, ...], _query: Mapping[str, str], body: Json
) -> tuple[int, object]:
    """`POST servers/NAME/credentials`: keep `headers` or `env`, by name."""
    given = _texts(
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
        user=given.get("user", ""),
        project=given.get("project", ""),
    )
    return 200, shown(view)


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


def shown(view: LoginView) -> Json:
    """A credential as JSON."""
    return dataclasses.asdict(view)


def _texts(body: Json, *names: str, allowed: tuple[str, ...] = ()) -> dict[str, str]:
    unknown = sorted(body.keys() - set(names))
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r:.60}.",
            allowed=f"Allowed: {', '.join(allowed or names)}.",
        )
    found = {name: value for name, value in body.items() if value is not None}
    for name, value in found.items():
        if not isinstance(value, str):
            # What came is not shown: it may be a secret in the wrong place.
            raise ArgumentError(f"Member {name!r} is no text.")
    return found


def _pairs(body: Json, name: str) -> dict[str, str]:
    value: object = body.get(name)
    pairs = json_object(value)
    is_object = value is None or isinstance(value, dict)
    if not is_object or not all(isinstance(one, str) for one in pairs.values()):
        raise ArgumentError(f"Member {name!r} is no object of texts.")
    return pairs
