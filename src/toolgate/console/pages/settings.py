"""The Settings pages: every setting with its source, and the diff of a change."""

import difflib
from itertools import groupby

from starlette.responses import Response

from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.settings import DescribedSetting

__all__ = ["ROUTES"]


async def _list(visit: Visit) -> Response:
    rows = await visit.gateway.manage.settings.all(visit.caller)
    word, source = visit.asked("q").strip().lower(), visit.asked("source")
    matching = [
        row
        for row in rows
        if word in f"{row.name} {row.description}".lower() and (not source or row.source == source)
    ]
    groups = groupby(matching, lambda row: ".".join(row.key[:-1]))
    return visit.page(
        "settings.html",
        groups=[(table, list(group)) for table, group in groups],
        total=len(rows),
        word=visit.asked("q"),
        source=source,
        file=visit.app.settings.config_file,
    )


async def _setting(visit: Visit, name: str) -> DescribedSetting:
    rows = await visit.gateway.manage.settings.all(visit.caller)
    for row in rows:
        if row.name == name:
            return row
    raise ArgumentError(f"There is no setting {name[:80]!r}.", hint="See the list of settings.")


async def _show(visit: Visit) -> Response:
    return await _page(visit)


async def _page(visit: Visit, *, lines: tuple[str, ...] = (), state: str = "") -> Response:
    row = await _setting(visit, visit.typed("name"))
    value = visit.typed("value") if visit.was_sent else row.shown
    return visit.page(
        "setting.html",
        row=row,
        value=value,
        lines=lines,
        state=state,
        file=visit.app.settings.config_file,
    )


async def _act(visit: Visit) -> Response:
    name, value = visit.typed("name"), visit.typed("value")
    settings = visit.gateway.manage.settings
    if visit.typed("do") == "save":
        await settings.save(visit.caller, name, value, state=visit.typed("state"))
        message = f"{name} was saved. It applies within two seconds."
        return visit.go("settings", message=message, q=name)
    change = await settings.check(visit.caller, name, value)
    compared = difflib.ndiff(change.before.splitlines(), change.after.splitlines())
    lines = tuple(line for line in compared if line[:2] in {"- ", "+ "})
    return await _page(visit, lines=lines or ("  No changes.",), state=change.state)


ROUTES = (
    Route(path="settings", show=_list),
    Route(path="setting", show=_show, act=_act),
)
