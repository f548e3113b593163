"""Check packs for `toolgate pack lint`, with their trained model and the known tools."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from toolgate.app.app import open_app
from toolgate.base.plugins import make
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.client._local_gateway import silence_logs
from toolgate.errors import StoreError
from toolgate.intents import SemanticModel, SemanticStage
from toolgate.intents.rules import STANDARD
from toolgate.models.embedders import Embedder
from toolgate.packs import Pack, intent_set_of
from toolgate.packs.lint import LintReport, lint
from toolgate.settings import ConnectionTable, PackSettings, Settings, learned_dir
from toolgate.store import StoreMaintenance, make_store
from toolgate.types import DEFAULT_PROJECT, Caller, Json, PluginSpec, json_object

_LISTING_TIMEOUT_S = 30.0
"""Seconds for a pack's servers to list their tools (chosen: longer than the start of a server
that is downloaded first)."""

_PLACEHOLDER_DATABASE = {"any": ConnectionTable(url="sqlite://", snapshot_every_minutes=0)}
"""Packs for databases have tools only if one is configured; this one is never queried."""


@dataclass(frozen=True, kw_only=True)
class _KnownTools:
    """The tools that intents can name."""

    schemas: Mapping[str, Mapping[str, Any]]
    """Input schemas by name and by key."""

    unlisted: tuple[str, ...]
    """Servers whose tools are not known yet."""

    problems: tuple[str, ...]
    """Problems in the files and the code of the pack."""


async def lint_packs(packs: Collection[Pack]) -> list[LintReport]:
    """Check packs and return the findings."""
    settings = load_settings()
    silence_logs(settings)
    remembered, servers = await _stored_schemas(settings)
    results: list[LintReport] = []
    for pack in packs:
        tools = await _tools(settings, pack, remembered, servers)
        results.append(
            lint(
                replace(pack, problems=tuple(dict.fromkeys((*pack.problems, *tools.problems)))),
                model=await _model(settings, pack),
                variables=STANDARD.keys(),
                schemas=tools.schemas,
                unlisted=tools.unlisted,
            )
        )
    return results


async def _model(settings: Settings, pack: Pack) -> SemanticModel | None:
    if not pack.prompts:
        return None
    search = settings.search
    spec = PluginSpec(
        name=search.embedder,
        setting="search.embedder",
        options=search.embedder_options,
        options_at="search.embedder_options",
    )
    stage = SemanticStage(embedder=make("embedder", Embedder, spec, {}), cache=learned_dir())
    await stage.update(intent_set_of([pack]).intents, unsupported=pack.unsupported)
    return stage.model


async def _tools(
    settings: Settings, pack: Pack, remembered: Mapping[str, Json], servers: Collection[str]
) -> _KnownTools:
    """Return the tools of the pack itself, and the last known ones of all other servers."""
    schemas = dict(remembered)
    isolated = replace(
        settings,
        servers=(),
        tool_names="prefixed",
        store=replace(settings.store, url="sqlite://"),
        connections=_PLACEHOLDER_DATABASE,
        packs=PackSettings(
            paths=(str(pack.folder),), enable=(pack.name,), options=settings.packs.options
        ),
    )
    async with open_app(isolated, wait_s=_LISTING_TIMEOUT_S, connect=(pack.name,)) as app:
        tools = [
            tool
            for tool in app.gateway.listing.tool_views(Caller.local())
            if tool.server == pack.name
        ]
        states = [state for state in app.packs.current.states if state.name == pack.name]
    for tool in tools:
        schema = json_object(tool.definition.get("inputSchema"))
        schemas[tool.key.partition(":")[2]] = schemas[tool.key] = schema
    listed = {key.partition(":")[0] for key in schemas if ":" in key}
    unlisted = {*pack.servers, *servers, *((pack.name,) if pack.has_server else ())} - listed
    return _KnownTools(
        schemas=schemas,
        unlisted=tuple(sorted(unlisted)),
        problems=states[0].problems if states else (),
    )


async def _stored_schemas(settings: Settings) -> tuple[dict[str, Json], list[str]]:
    """Return input schemas from the last listing of each server, and the names of all servers."""
    names = [spec.name for spec in settings.servers]
    schemas: dict[str, Json] = {}
    store = make_store(store_url(settings))
    with suppress(StoreError):
        if not isinstance(store, StoreMaintenance) or not await store.exists():
            return schemas, names
        await store.open()
        try:
            names += [row.name for row in await store.servers.select(DEFAULT_PROJECT)]
            for snapshot in await store.catalog.snapshots(DEFAULT_PROJECT):
                for tool in _tools_of(snapshot.listing):
                    name, schema = str(tool.get("name")), json_object(tool.get("inputSchema"))
                    schemas[f"{snapshot.server}:{name}"] = schema
                    schemas.setdefault(name, schema)
        finally:
            await store.close()
    return schemas, names


def _tools_of(listing: bytes) -> list[Json]:
    try:
        tools = json_object(json.loads(listing)).get("tools")
    except ValueError:
        return []
    return [json_object(tool) for tool in cast("list[object]", tools or [])]
