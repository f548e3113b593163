"""Labelled requests from the usage log, as an evaluation set of your own catalog."""

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolgate.base import json_text
from toolgate.errors import ArgumentError
from toolgate.store import Store, StoredSnapshot, UsageEntry, UsageFilter
from toolgate.types import Json, json_array, json_object

_SEARCHES_MOST = 100_000
"""Searches read from the log, newest first (chosen)."""


@dataclass(frozen=True, kw_only=True)
class LabelledRequests:
    """Requests with the tools that they need, in the format of `toolgate eval tools`."""

    tools: Sequence[Json]
    """Lines of `tools.jsonl`: all tools of the last listings."""

    queries: Sequence[Json]
    """Lines of `queries.jsonl`, newest first."""

    def zipped(self, folder: str) -> bytes:
        """Both files in a folder, as a ZIP file."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, rows in (("tools", self.tools), ("queries", self.queries)):
                lines = b"".join(json_text.dumps(row) + b"\n" for row in rows)
                packed.writestr(f"{folder}/{name}.jsonl", lines)
        return file.getvalue()


async def read_labelled_requests(store: Store, project_id: str) -> LabelledRequests:
    """Searches of a project whose tools were called successfully or rated relevant.

    Raises:
        ArgumentError: The log contains no such request, or none with its text.
        StoreError: The store cannot be read.
    """
    usage_filter = UsageFilter(project_id=project_id, with_uses=True, limit=_SEARCHES_MOST)
    logged = await store.usage.select(usage_filter)
    tools = list(_tools(await store.catalog.snapshots(project_id)))
    queries = list(_queries(logged, {str(tool["id"]) for tool in tools}))
    if not queries:
        has_texts = any(entry.search.query is not None for entry in logged)
        raise ArgumentError(
            "The usage log has no request with a tool that worked"
            + ("." if has_texts or not logged else " and with its text: no text was stored."),
            hint="Use the gateway for a while first."
            if has_texts or not logged
            else "Set audit.keep_queries = true; requests from then on can be used.",
        )
    return LabelledRequests(tools=tools, queries=queries)


def _queries(logged: Iterable[UsageEntry], keys: set[str]) -> Iterator[Json]:
    """One request per text, newest first; tools that were later rated irrelevant are left out."""
    needed: dict[str, dict[str, None]] = {}
    wrong: dict[str, set[str]] = {}
    for entry in logged:
        text = entry.search.query
        if text is None or not text.strip():
            continue
        for use in entry.uses:
            if use.outcome in {"ok", "right"} and use.tool in keys:
                needed.setdefault(text, {})[use.tool] = None
            elif use.outcome == "wrong":
                wrong.setdefault(text, set()).add(use.tool)
    for number, (text, tools) in enumerate(needed.items()):
        right = [tool for tool in tools if tool not in wrong.get(text, ())]
        if right:
            yield {"id": f"mine-{number + 1}", "text": text, "relevant": right}


def _tools(snapshots: Iterable[StoredSnapshot]) -> Iterator[Json]:
    """The tools of the last listings."""
    for snapshot in snapshots:
        listing = json_object(json_text.loads(snapshot.listing))
        for definition in map(json_object, json_array(listing.get("tools"))):
            name = definition.get("name")
            if not isinstance(name, str):
                continue
            title = definition.get("title") or json_object(definition.get("annotations")).get(
                "title"
            )
            description = definition.get("description")
            yield {
                "id": f"{snapshot.server}:{name}",
                "server": snapshot.server,
                "name": name,
                "title": title if isinstance(title, str) else "",
                "description": description if isinstance(description, str) else "",
                "input_schema": json_object(definition.get("inputSchema")),
            }
