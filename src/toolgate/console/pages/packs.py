"""The Packs pages: all packs, and one with its intents, prompts, rules and check."""

from starlette.responses import Response

from toolgate.console.pages.intents import checked_pack
from toolgate.console.request import Visit
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.packs import PackState, is_on_by_default

__all__ = ["ROUTES"]


async def _list(visit: Visit) -> Response:
    visit.gateway.visible.must_manage(visit.caller)
    states = visit.app.packs.current.states
    return visit.page("packs.html", packs=[(state, state.to_json()) for state in states])


def _state(visit: Visit, name: str) -> PackState:
    visit.gateway.visible.must_manage(visit.caller)
    for state in visit.app.packs.current.states:
        if state.name == name:
            return state
    raise ArgumentError(f"There is no pack {name[:60]!r}.", hint="See the list of packs.")


async def _show(visit: Visit) -> Response:
    state = _state(visit, visit.typed("name"))
    report = await checked_pack(visit, state.name) if visit.asked("check") else None
    return visit.page("pack.html", state=state, pack=state.pack, report=report)


async def _act(visit: Visit) -> Response:
    state = _state(visit, visit.typed("name"))
    on = visit.typed("do") == "enable"
    await visit.gateway.manage.settings.switch_pack(
        visit.caller,
        state.name,
        on=on,
        by_default=is_on_by_default(state.name, state.origin),
    )
    message = f"{state.name} is {'enabled' if on else 'disabled'}; it takes effect within seconds."
    return visit.go("packs", message=message)


ROUTES = (
    Route(path="packs", show=_list, act=_act),
    Route(path="pack", show=_show),
)
