"""One's own requests as an evaluation set: from the usage log, over the tools of the catalog."""

from collections.abc import Iterable

from toolgate import jsontext
from toolgate.cli._measure import Labelled, Question
from toolgate.errors import ArgumentError
from toolgate.ids import utc_now
from toolgate.search import SearchableTool
from toolgate.settings import Settings, default_store_url
from toolgate.store import Logged, StoredSnapshot, UsageFilter, make_store
from toolgate.types import DEFAULT_PROJECT, Json, json_array, json_object

__all__ = ["read_mine"]

_SEARCHES_MOST = 100_000


async def read_mine(settings: Settings, *, most: int = 0) -> Labelled:
    """Searches whose tools were executed with success or marked right, as labelled requests.

    Args:
        settings: Name the store.
        most: Requests at most, the newest; 0 takes all.

    Raises:
        ArgumentError: The log has no such request, or none with its text.
        StoreError: The store cannot be read.
    """
    store = make_store(settings.store.url or default_store_url())
    await store.open()
    try:
        wanted = UsageFilter(project_id=DEFAULT_PROJECT, with_uses=True, limit=_SEARCHES_MOST)
        logged = await store.usage(wanted)
        snapshots = await store.snapshots(DEFAULT_PROJECT)
    finally:
        await store.close()
    tools = _tools(snapshots)
    questions = list(_questions(logged, {tool.key for tool in tools}))
    if not questions:
        kept = any(each.search.query is not None for each in logged)
        raise ArgumentError(
            "The usage log has no request with a tool that worked"
            + ("." if kept or not logged else " and with its text: no text was kept."),
            hint="Use the gateway for a while first."
            if kept or not logged
            else "Set audit.keep_queries = true; requests from then on can be used.",
        )
    questions = questions[:most] if most else questions
    return Labelled(name=f"mine {utc_now()[:10]}", tools=tuple(tools), questions=tuple(questions))


def _questions(logged: Iterable[Logged], keys: set[str]) -> Iterable[Question]:
    """One for each text, newest first; a tool that was marked wrong later is not needed."""
    needed: dict[str, dict[str, None]] = {}
    wrong: dict[str, set[str]] = {}
    for each in logged:
        text = each.search.query
        if text is None or not text.strip():
            continue
        for use in each.uses:
            if use.outcome in {"ok", "right"} and use.tool in keys:
                needed.setdefault(text, {})[use.tool] = None
            elif use.outcome == "wrong":
                wrong.setdefault(text, set()).add(use.tool)
    for number, (text, tools) in enumerate(needed.items()):
        right = [tool for tool in tools if tool not in wrong.get(text, ())]
        if right:
            groups = tuple(frozenset({tool}) for tool in right)
            yield Question(id=f"mine-{number + 1}", text=text, groups=groups)


def _tools(snapshots: Iterable[StoredSnapshot]) -> list[SearchableTool]:
    """The tools of the last listings."""
    found: list[SearchableTool] = []
    for snapshot in snapshots:
        listing = json_object(jsontext.loads(snapshot.listing))
        for definition in map(json_object, json_array(listing.get("tools"))):
            name = definition.get("name")
            if isinstance(name, str):
                found.append(_tool(snapshot.server, name, definition))
    return found


def _tool(server: str, name: str, definition: Json) -> SearchableTool:
    properties = json_object(json_object(definition.get("inputSchema")).get("properties"))
    title = definition.get("title") or json_object(definition.get("annotations")).get("title")
    about = definition.get("description")
    return SearchableTool(
        key=f"{server}:{name}",
        server=server,
        name=name,
        title=title if isinstance(title, str) else "",
        description=about if isinstance(about, str) else "",
        parameters=tuple(
            (name, str(json_object(schema).get("description") or ""))
            for name, schema in properties.items()
        ),
    )
