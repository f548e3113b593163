"""The Intents pages: detection of a message, packs, unclassified messages as example prompts."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import anyio.to_thread
from starlette.responses import Response

from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.errors import ArgumentError
from toolgate.evaluation.example_prompts import Preview, as_prompts, preview, prompt_file
from toolgate.intents import NONE, DetectRequest
from toolgate.intents.rules import STANDARD
from toolgate.packs import WRITABLE_ORIGINS, Pack
from toolgate.packs.lint import LintReport, lint
from toolgate.settings import learned_dir
from toolgate.store import DetectionFilter, StoredDetection
from toolgate.types import Json, json_object

_UNSURE_BELOW = 0.7
"""Confidence in [0, 1] below which a message is listed for review (chosen: packs ask back below
the same value)."""
_UNSURE = 20
"""Messages that are listed for review (chosen)."""
_READ = 10 * _UNSURE
"""Detections that are read for them, since the same message may have been sent often (chosen)."""


_LONGEST_EXAMPLE = 500
"""Characters of an example prompt (chosen: longer messages are hardly alike)."""


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
        teaches=bool(_own_packs(request)),
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


def _own_packs(request: PageRequest) -> list[Pack]:
    """Return the packs in use whose files users write; empty if the caller may not change them."""
    if not request.manages:
        return []
    states = request.app.packs.current.states
    return [state.pack for state in states if state.pack and state.origin in WRITABLE_ORIGINS]


async def _show_example(request: PageRequest) -> Response:
    """Offer the intents that a message may be an example of."""
    request.gateway.visible.must_manage(request.caller)
    return _example_page(request)


def _example_page(request: PageRequest, seen: Preview | None = None, file: str = "") -> Response:
    return request.page(
        "example.html",
        message=request.value("message")[:_LONGEST_EXAMPLE],
        chosen=request.value("intent"),
        near=request.query_value("near"),
        packs=_own_packs(request),
        nothing=NONE,
        seen=seen,
        file=file,
    )


def _example(request: PageRequest) -> tuple[Pack, str, list[str]]:
    """Return the pack, the intent (or `none`) and the prompt that the form asks for.

    Raises:
        ArgumentError: There is no such intent, or the message cannot be a prompt.
    """
    name, _, intent = request.value("intent").partition("/")
    pack = next((pack for pack in _own_packs(request) if pack.name == name), None)
    if pack is None or intent not in {NONE, *(known.name for known in pack.intents)}:
        raise ArgumentError(
            f"There is no intent {intent[:60]!r} in your packs.", hint="Choose one of the list."
        )
    return pack, intent, as_prompts([request.value("message")[:_LONGEST_EXAMPLE]])


async def _act_on_example(request: PageRequest) -> Response:
    """Preview what an example changes, or add it."""
    request.gateway.visible.must_manage(request.caller)
    pack, intent, lines = _example(request)
    path = prompt_file(pack, intent)
    if request.value("do") != "add":
        # Otherwise both would train the same models.
        await request.app.recognizer.wait_for_first_training()
        waits = packs_without_database(request)
        seen = await preview(
            [known for known in request.app.packs.current.packs if known.name not in waits],
            pack,
            intent,
            lines,
            embedder=request.app.recognizer.semantic_stage.embedder,
            cache=learned_dir(),
        )
        return _example_page(request, seen, path.name)
    added = await request.gateway.manage.prompts.add(
        request.caller, path, lines, pack=pack.name, intent=intent
    )
    done = "The message was added to" if added else "The message was already in"
    effect = " It is learned within seconds." if added else ""
    return request.go("intents", message=f"{done} {path.name} of {pack.name}.{effect}")


ROUTES = (
    Route(path="intents", show=_show),
    Route(path="example", show=_show_example, act=_act_on_example, acts_outside=True),
)
