"""Import documents into a collection: find new, changed, unchanged and deleted ones."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, cast

from toolgate.cli.chat._collect_files import CollectedFiles, SourceFile, read_content, to_text
from toolgate.cli.client._gateway_client import GatewayClient, GatewayResponseError, path_of
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, plural, print_json, print_text, progress_bar
from toolgate.documents import DocumentConverter
from toolgate.errors import ConfigError, ToolgateError
from toolgate.settings import Settings
from toolgate.types import Json


async def synchronize(
    gateway: GatewayClient, settings: Settings, name: str, collected: CollectedFiles
) -> Json:
    """Import new and changed documents, remove deleted ones, and return a summary."""
    path = path_of("collections", name)
    before = {(row["origin"], row["source"]): row for row in await documents_of(gateway, name)}
    done: dict[str, list[str]] = {"added": [], "replaced": [], "unchanged": [], "removed": []}
    unreadable: list[Json] = []
    passages = 0
    async with AsyncExitStack() as stack:
        converter = DocumentConverter(lambda: settings.documents)
        stack.push_async_callback(converter.aclose)
        step = stack.enter_context(progress_bar("Reading documents", len(collected.items)))
        for item in collected.items:
            step(item.source)
            try:
                answer = await _add_document(gateway, settings, converter, path, item, before)
            except (ConfigError, GatewayResponseError) as error:
                if not _concerns_one_document(error):
                    raise
                unreadable.append(_failure(item, error))
            except ToolgateError as error:
                unreadable.append(_failure(item, error))
            else:
                done[str(answer["status"])].append(item.source)
                passages += int(answer["passages"])
    origins = {item.origin for item in collected.items} | set(collected.folders)
    report: Json = {"failures": unreadable, "origins": sorted(origins)}
    await gateway.request("POST", f"{path}/failures", report)
    present = {(item.origin, item.source) for item in collected.items}
    gone = [
        row
        for key, row in before.items()
        if row["origin"] in collected.folders and key not in present
    ]
    if gone:
        ids = [row["document_id"] for row in gone]
        await gateway.request("POST", f"{path}/remove", {"documents": ids})
        done["removed"] = [row["source"] for row in gone]
    if done["added"] or done["replaced"]:
        await gateway.request("POST", f"{path}/settle", {})
    return {
        "collection": name,
        **done,
        "failed": [
            *({"source": source, "reason": why} for source, why in collected.problems),
            *({"source": entry["source"], "reason": entry["reason"]} for entry in unreadable),
        ],
        "skipped": collected.skipped,
        "passages": passages,
    }


async def _add_document(
    gateway: GatewayClient,
    settings: Settings,
    converter: DocumentConverter,
    path: str,
    item: SourceFile,
    before: dict[tuple[str, str], Json],
) -> Json:
    material = await read_content(item, settings)
    stored = before.get((item.origin, item.source))
    if stored is not None and stored["sha256"] == material.sha256 and stored["is_current"]:
        return {"status": "unchanged", "passages": stored["passages"]}
    text = await to_text(item, material, converter)
    return await gateway.request(
        "POST",
        f"{path}/documents",
        {
            "source": item.source,
            "origin": item.origin,
            "title": text.title,
            "text": text.text,
            "media_type": text.media_type,
            "sha256": material.sha256,
            "size_bytes": material.size_bytes,
            "has_pages": text.has_pages,
        },
    )


def _failure(item: SourceFile, error: ToolgateError) -> Json:
    return {"source": item.source, "origin": item.origin, "reason": str(error)}


def _concerns_one_document(error: ToolgateError) -> bool:
    """Whether an error concerns one document only, so that the others can still be imported."""
    code = error.kind if isinstance(error, GatewayResponseError) else error.code
    return code in {"document", "argument", "missing_extra"}


def report_import(summaries: Sequence[Json], as_json: bool) -> int:
    if as_json:
        print_json(summaries[0] if len(summaries) == 1 else {"collections": list(summaries)})
    is_any = False
    for summary in summaries:
        counts = {
            key: len(cast("Sequence[Any]", summary[key]))
            for key in ("added", "replaced", "unchanged", "removed")
        }
        is_any = is_any or any(counts.values())
        if not as_json:
            text = ", ".join(f"{count} {key}" for key, count in counts.items() if count)
            print_text(f"{summary['collection']}: {text or 'nothing to add'}.")
            for failure in cast("Sequence[Json]", summary["failed"]):
                note(f"Not added: {failure['reason']}")
            if summary["skipped"]:
                note(f"{plural(len(summary['skipped']), 'file')} skipped: not documents.")
    if any(summary["failed"] for summary in summaries):
        return FAILED
    return SUCCESS if is_any else NO_RESULT


async def documents_of(gateway: GatewayClient, name: str) -> list[Json]:
    answer = await gateway.request("GET", path_of("collections", name, "documents"))
    return cast("list[Json]", answer["documents"])
