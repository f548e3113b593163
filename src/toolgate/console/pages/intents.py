"""The Intents page: detection of a message, packs, unclassified messages."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import anyio.to_thread
from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.intents import DetectRequest
from toolgate.intents.rules import STANDARD
from toolgate.packs.lint import LintReport, lint
from toolgate.store import DetectionFilter, StoredDetection
from toolgate.types import Json, json_object

_UNSURE_BELOW = 0.7
"""Confidence in [0, 1] below which a message is listed for review (chosen: packs ask back below
the same value)."""
_UNSURE = 20
"""Messages that are listed for review (chosen)."""
_READ = 10 * _UNSURE
"""Detections that are read for them, since the same message may have been sent often (chosen)."""


async def _show(request: PageRequest) -> Response:
    message = request.query_value("message").strip()
    detection, enriched = None, None
    caller = replace(request.caller, conversation="")
    if message:
        [detection] = await request.gateway.intents.detect(
            caller, DetectRequest(messages=(message[:20_000],))
        )
        enriched = await request.gateway.intents.enrich(caller, message[:20_000])
    packs = (
        [state.to_json() for state in request.app.packs.current.states] if request.manages else []
    )
    unsure: list[StoredDetection] = []
    if request.manages:
        unsure = await request.app.store.detections.select(
            DetectionFilter(outcomes=("unsure", "none"), below=_UNSURE_BELOW, limit=_READ)
        )
        unsure = _without_repeats(unsure)[:_UNSURE]
    prompts: dict[str, list[str]] = {}
    for note in unsure:
        line = " ".join((note.message or "").split())
        lines = prompts.setdefault(note.near_intent, [])
        if line and not line.startswith("#") and line not in lines:
            lines.append(line)
    return request.page(
        "intents.html",
        prompts=[(intent, lines) for intent, lines in prompts.items() if lines],
        message=message,
        waits=packs_without_database(request),
        found=detection,
        enriched=enriched,
        packs=packs,
        checked=await checked_pack(request, request.query_value("check"))
        if request.manages
        else None,
        unsure=unsure,
        keeps=request.app.settings.audit.keep_queries,
    )


def _without_repeats(notes: Iterable[StoredDetection]) -> list[StoredDetection]:
    """Keep the latest of detections with the same message; those without its text are all kept."""
    seen: set[str] = set()
    kept: list[StoredDetection] = []
    for note in notes:
        if note.message and note.message in seen:
            continue
        seen.add(note.message or "")
        kept.append(note)
    return kept


def packs_without_database(request: PageRequest) -> frozenset[str]:
    """Return the packs whose intents are not detected because no database is connected."""
    if request.app.settings.connections:
        return frozenset()
    packs = request.app.packs.current.packs
    return frozenset(pack.name for pack in packs if "connections" in pack.needs)


async def checked_pack(request: PageRequest, name: str) -> LintReport | None:
    """Check a pack; None if no pack in use has this name."""
    states = request.app.packs.current.states
    pack = next((state.pack for state in states if state.name == name and state.pack), None)
    if pack is None:
        return None
    schemas: dict[str, Json] = {}
    for tool in request.gateway.visible.tools(request.caller):
        schema = json_object(tool.definition.get("inputSchema"))
        schemas[tool.key] = schema
        schemas.setdefault(tool.key.partition(":")[2], schema)
    listed = {key.partition(":")[0] for key in schemas if ":" in key}
    unlisted = [
        name for name in request.gateway.servers.names(request.caller) if name not in listed
    ]
    if pack.has_server and pack.name not in listed:
        unlisted.append(pack.name)
    check = partial(
        lint, pack, model=None, schemas=schemas, variables=STANDARD.keys(), unlisted=unlisted
    )
    return await anyio.to_thread.run_sync(check)


ROUTES = (Route(path="intents", show=_show),)
