"""The Packs pages: all packs, and one with its intents, prompts, rules and check."""

from starlette.responses import Response

from toolgate.console.pages.intents import checked_pack
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.packs import PackState, is_on_by_default

__all__ = ["ROUTES"]


async def _list(request: PageRequest) -> Response:
    request.gateway.visible.must_manage(request.caller)
    states = request.app.packs.current.states
    return request.page("packs.html", packs=[(state, state.to_json()) for state in states])


def _state(request: PageRequest, name: str) -> PackState:
    request.gateway.visible.must_manage(request.caller)
    for state in request.app.packs.current.states:
        if state.name == name:
            return state
    raise ArgumentError(f"There is no pack {name[:60]!r}.", hint="See the list of packs.")


async def _show(request: PageRequest) -> Response:
    state = _state(request, request.value("name"))
    report = await checked_pack(request, state.name) if request.query_value("check") else None
    return request.page("pack.html", state=state, pack=state.pack, report=report)


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
