"""Intents: what a message asks for, how sure that is, and the packs that teach it."""

from dataclasses import replace

from starlette.responses import Response

from toolgate.intent import DetectRequest
from toolgate.store import DetectionFilter
from toolgate.web._route import Route
from toolgate.web._visit import Visit

__all__ = ["ROUTES"]

_UNSURE_BELOW = 0.7
_UNSURE = 20


async def _show(visit: Visit) -> Response:
    message = visit.asked("message").strip()
    found, enriched = None, None
    caller = replace(visit.caller, conversation="")
    if message:
        [found] = await visit.gateway.detect(caller, DetectRequest(messages=(message[:20_000],)))
        enriched = await visit.gateway.enrich(caller, message[:20_000])
    packs = [state.shown() for state in visit.app.packs.current.states] if visit.manages else []
    unsure = []
    if visit.manages:
        unsure = await visit.app.store.detections(
            DetectionFilter(outcomes=("unsure", "none"), below=_UNSURE_BELOW, limit=_UNSURE)
        )
    prompts: dict[str, list[str]] = {}
    for one in unsure:
        line = " ".join((one.message or "").split())
        lines = prompts.setdefault(one.intent or one.rival, [])
        if line and not line.startswith("#") and line not in lines:
            lines.append(line)
    return visit.page(
        "intents.html",
        prompts=[(intent, lines) for intent, lines in prompts.items() if lines],
        message=message,
        found=found,
        enriched=enriched,
        packs=packs,
        unsure=unsure,
        keeps=visit.app.settings.audit.keep_queries,
    )


ROUTES = (Route(path="intents", show=_show),)
