"""The Packs pages: all packs, and one with its tools, programs, intents, rules and check."""

from anyio import to_thread
from starlette.responses import Response

from toolgate.base.pack_files import PackFile
from toolgate.console.pages.intents import checked_pack, packs_without_database
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError, PackError
from toolgate.packs import Pack, PackState, is_on_by_default


async def _list(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    states = request.app.packs.current.states
    return request.page(
        "packs.html",
        packs=[(state, state.to_json()) for state in states],
        waits=packs_without_database(request),
    )


def _state(request: PageRequest, name: str) -> PackState:
    request.gateway.visible.must_manage(request.caller)
    for state in request.app.packs.current.states:
        if state.name == name:
            return state
    raise ArgumentError(f"There is no pack {name[:60]!r}.", hint="See the list of packs.")


async def _show(request: PageRequest) -> Response:
    state = _state(request, request.value("name"))
    report = await checked_pack(request, state.name) if request.query_value("check") else None
    return request.page(
        "pack.html",
        state=state,
        waits=state.name in packs_without_database(request),
        pack=state.pack,
        tools=request.gateway.visible.tools_of(request.caller, state.name),
        programs=await to_thread.run_sync(_programs, state.pack) if state.pack else [],
        report=report,
    )


def _programs(pack: Pack) -> list[tuple[str, str]]:
    """The name and the code of each program, for people who review them."""
    programs: list[tuple[str, str]] = []
    for path in pack.programs:
        try:
            programs.append((path.stem, PackFile(path).text))
        except PackError as error:
            programs.append((path.stem, str(error)))
    return programs


async def _act(request: PageRequest) -> Response:
    state = _state(request, request.value("name"))
    on = request.value("do") == "enable"
    await request.gateway.manage.settings.switch_pack(
        request.caller,
        state.name,
        on=on,
        by_default=is_on_by_default(state.name, state.origin),
    )
    switched = "enabled" if on else "disabled"
    message = f"{state.name} is {switched}. The change takes effect within seconds."
    return request.go("packs", message=message)


ROUTES = (
    Route(path="packs", show=_list, act=_act),
    Route(path="pack", show=_show),
)
