"""The Guards page."""

from dataclasses import asdict

import orjson
from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.console.rule_preview import matches_of, typed_patterns
from toolgate.errors import ArgumentError
from toolgate.settings import GuardTable
from toolgate.types import Json

_ABOUT = frozenset({"tools", "projects", "hint", "reason", "source", "deny"})
"""Fields that are shown in columns or lines of their own."""

_CHOSEN = ("hint", "approver", "secrets_in_arguments", "secrets_in_results", "reason")
_SIZES = ("max_argument_bytes", "max_result_bytes")


async def _show(request: PageRequest) -> Response:
    guards = await request.gateway.admin.guards(request.caller)
    return request.page(
        "guards.html",
        guards=[(key, table, _does(table)) for key, table in guards],
        matches=matches_of(request, typed_patterns(request), hint=request.value("hint"))
        if request.was_sent
        else (),
    )


async def _act(request: PageRequest) -> Response:
    admin = request.gateway.admin
    if request.value("do") == "remove":
        await admin.remove_guard(request.caller, request.value("id"))
        return request.go("guards", message="Guard removed.")
    if request.value("do") == "preview":
        return await _show(request)
    rule: Json = {name: request.value(name).strip() for name in _CHOSEN}
    rule["tools"] = typed_patterns(request)
    rule["projects"] = request.value("projects").replace(",", " ").split()
    rule["deny"] = {"*": [line for line in request.value("deny").splitlines() if line.strip()]}
    for name in _SIZES:
        if text := request.value(name).strip():
            if not text.isdecimal():
                raise ArgumentError(f"{name} is {text[:20]!r}.", allowed="Must be an integer.")
            rule[name] = int(text)
    if not rule["deny"]["*"]:
        del rule["deny"]
    await admin.add_guard(request.caller, {key: value for key, value in rule.items() if value})
    return request.go("guards", message="Guard added.")


def _does(table: GuardTable) -> list[str]:
    """Return what a guard checks, a line each."""
    lines = [
        f"denied in {'any argument' if name == '*' else name}: {', '.join(patterns)}"
        for name, patterns in table.deny.items()
    ]
    lines += [
        f"{name.replace('_', ' ')}: {_in_words(value)}"
        for name, value in asdict(table).items()
        if value and name not in _ABOUT
    ]
    return lines


def _in_words(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


ROUTES = (Route(path="guards", show=_show, act=_act),)
