"""The Settings pages: every setting with its source, and the diff of a change."""

import difflib
from dataclasses import dataclass
from itertools import groupby

import anyio
from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.settings import DescribedSetting


@dataclass(frozen=True, kw_only=True)
class _Group:
    """The settings of a table of `toolgate.toml`."""

    table: str
    """Name of the table; empty: top of the file."""

    rows: list[DescribedSetting]
    """Its settings."""

    is_open: bool
    """Whether they are shown although none was changed, since they were searched for."""

    @property
    def changed(self) -> int:
        """Number of settings with a value of their own."""
        return sum(row.source != "default" for row in self.rows)


async def _list(request: PageRequest) -> Response:
    rows = await request.gateway.manage.settings.all(request.caller)
    word, source = request.query_value("q").strip().lower(), request.query_value("source")
    matching = [
        row
        for row in rows
        if word in f"{row.name} {row.description}".lower() and (not source or row.source == source)
    ]
    file = request.gateway.manage.settings.file
    tables = groupby(matching, lambda row: ".".join(row.key[:-1]))
    return request.page(
        "settings.html",
        groups=[
            _Group(table=table, rows=rows, is_open=bool(word or source))
            for table, rows in ((table, list(rows)) for table, rows in tables)
        ],
        total=len(rows),
        word=request.query_value("q"),
        source=source,
        file=file,
        # The settings are read again only two seconds after a change.
        is_new=file is not None and not await anyio.Path(file).exists(),
    )


async def _setting(request: PageRequest, name: str) -> DescribedSetting:
    rows = await request.gateway.manage.settings.all(request.caller)
    for row in rows:
        if row.name == name:
            return row
    raise ArgumentError(f"There is no setting {name[:80]!r}.", hint="See the list of settings.")


async def _show(request: PageRequest) -> Response:
    return await _page(request)


async def _page(request: PageRequest, *, lines: tuple[str, ...] = (), state: str = "") -> Response:
    row = await _setting(request, request.value("name"))
    value = request.value("value") if request.was_sent else row.shown
    return request.page(
        "setting.html",
        row=row,
        value=value,
        lines=lines,
        state=state,
        file=request.gateway.manage.settings.file,
    )


async def _act(request: PageRequest) -> Response:
    name, value = request.value("name"), request.value("value")
    settings = request.gateway.manage.settings
    if request.value("do") == "save":
        await settings.save(request.caller, name, value, state=request.value("state"))
        message = f"{name} was saved. It applies within two seconds."
        return request.go("settings", message=message, q=name)
    change = await settings.check(request.caller, name, value)
    compared = difflib.ndiff(change.before.splitlines(), change.after.splitlines())
    lines = tuple(line for line in compared if line[:2] in {"- ", "+ "})
    return await _page(request, lines=lines or ("  No changes.",), state=change.state)


ROUTES = (
    Route(path="settings", show=_list),
    Route(path="setting", show=_show, act=_act),
)
