"""`toolgate docs`: documents are taken in, listed, searched and removed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import typer

from toolgate.cli.chat._collect_files import Gathered, Item, converted, gather, is_address, read
from toolgate.cli.client._gateway_client import GatewayClient, GatewayResponseError, path_of
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import FAILED, FINE, NOTHING
from toolgate.cli.terminal._output import (
    counted,
    counting,
    local_time,
    note,
    print_json,
    print_table,
    print_text,
)
from toolgate.errors import ArgumentError, ConfigError, ToolgateError
from toolgate.settings import Settings
from toolgate.types import Json

__all__ = ["app"]

app = typer.Typer(
    help="Take documents in, list, search and remove them: what models answer from.",
    no_args_is_help=True,
    add_completion=False,
)

_USUAL = "documents"
_SHOWN = 300

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
In = Annotated[
    str,
    typer.Option("--collection", "-c", metavar="NAME", help="Collection that is meant."),
]
Maybe = Annotated[
    str | None,
    typer.Option("--collection", "-c", metavar="NAME", help="Only this collection."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Embedding model: a name of [documents.models], or of an embedder.",
    ),
]
Metric = Annotated[
    str | None, typer.Option("--metric", help="How vectors are compared: cosine, euclidean, dot.")
]
Place = Annotated[
    str | None,
    typer.Option("--place", help="Where vectors are kept: auto, sqlite, pgvector, milvus, qdrant."),
]


@app.command()
def add(
    named: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES|FOLDERS|URLS...",
            help="Markdown, HTML, PDF, DOCX, text or CSV; folders with all below them.",
        ),
    ],
    collection: In = _USUAL,
    alias: Annotated[
        str | None, typer.Option("--alias", help="Another name of the collection.")
    ] = None,
    description: Annotated[
        str | None,
        typer.Option("--description", help="What is in the collection; models choose by it."),
    ] = None,
    model: Model = None,
    metric: Metric = None,
    place: Place = None,
    as_json: AsJson = False,
) -> int:
    """Take documents in. What has not changed is skipped; what is gone from a folder is removed."""
    wanted = {
        "alias": alias,
        "description": description,
        "model": model,
        "metric": metric,
        "place": place,
    }
    return anyio.run(_add, named, collection, wanted, as_json)


@app.command()
def refresh(collection: Maybe = None, as_json: AsJson = False) -> int:
    """Look again at everything that was added: changed, new and removed files and pages."""
    return anyio.run(_refresh, collection, as_json)


@app.command("list")
def list_documents(collection: Maybe = None, as_json: AsJson = False) -> int:
    """List the documents."""
    return anyio.run(_list, collection, as_json)


@app.command()
def collections(as_json: AsJson = False) -> int:
    """List the collections, with what is in them."""
    return anyio.run(_collections, as_json)


@app.command()
def search(
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="What is looked for.")],
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", "-c", metavar="NAME", help="Only this one. Repeatable."),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", metavar="N", help="Passages at most.")
    ] = None,
    search_type: Annotated[
        str | None,
        typer.Option("--type", help="similarity, similarity_score_threshold, mmr or hybrid."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Least similarity, with similarity_score_threshold."),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Show passages whole.")] = False,
    as_json: AsJson = False,
) -> int:
    """Search the documents, as a model would."""
    body: Json = {
        "question": " ".join(question),
        "collections": collection,
        "top_k": top_k,
        "search_type": search_type,
        "score_threshold": threshold,
    }
    if threshold is not None and search_type is None:
        body["search_type"] = "similarity_score_threshold"
    return anyio.run(_search, body, whole, as_json)


@app.command()
def remove(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DOCUMENTS]...",
            help="Sources as `docs list` shows them, or what was added: folder, file, address.",
        ),
    ] = None,
    collection: In = _USUAL,
    everything: Annotated[
        bool, typer.Option("--all", help="The collection with all that is in it.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Remove documents, or a whole collection."""
    if bool(named) == everything:
        raise ArgumentError(
            "What is removed are documents, or a whole collection.",
            hint="Write: toolgate docs remove SOURCE, or: toolgate docs remove --all -c NAME",
        )
    origins = [each if is_address(each) else str(Path(each).resolve()) for each in named or ()]
    return anyio.run(_remove, named or [], origins, collection, as_json)


@app.command()
def reindex(
    collection: Annotated[
        str, typer.Argument(metavar="COLLECTION", help="Name of the collection.")
    ],
    model: Model = None,
    metric: Metric = None,
    place: Place = None,
    as_json: AsJson = False,
) -> int:
    """Compute the vectors of a collection anew, also for another model, metric or place."""
    wanted = {"model": model, "metric": metric, "place": place}
    return anyio.run(_reindex, collection, wanted, as_json)


async def _add(named: list[str], name: str, wanted: dict[str, str | None], as_json: bool) -> int:
    settings = load_settings()
    found = await anyio.to_thread.run_sync(gather, named)
    if not found.items and not found.folders:
        raise ArgumentError(
            " ".join(why for _, why in found.problems), hint="Name files, folders or addresses."
        )
    async with open_gateway(settings, connect=()) as gateway:
        await gateway.request("POST", "collections", {"name": name, **wanted})
        summary = await _take_in(gateway, settings, name, found)
    return _report([summary], as_json)


async def _refresh(name: str | None, as_json: bool) -> int:
    settings = load_settings()
    summaries: list[Json] = []
    async with open_gateway(settings, connect=()) as gateway:
        for each in await _names(gateway, name):
            known = await _known(gateway, each)
            origins = list(dict.fromkeys(row["origin"] for row in known if row["origin"]))
            found = await anyio.to_thread.run_sync(gather, origins)
            gone = [origin for origin, _ in found.problems]
            found.problems.clear()
            found.folders += gone  # nothing is left of them
            summaries.append(await _take_in(gateway, settings, each, found))
    return _report(summaries, as_json)


async def _take_in(gateway: GatewayClient, settings: Settings, name: str, found: Gathered) -> Json:
    """Add what is new or changed, remove what is gone from folders; gives what was done."""
    path = path_of("collections", name)
    before = {(row["origin"], row["source"]): row for row in await _known(gateway, name)}
    done: dict[str, list[str]] = {"added": [], "replaced": [], "unchanged": [], "removed": []}
    failed: list[Json] = [{"source": source, "reason": why} for source, why in found.problems]
    passages = 0
    with counting("Reading documents", len(found.items)) as step:
        for item in found.items:
            step(item.source)
            try:
                answer = await _one(gateway, settings, path, item, before)
            except (ConfigError, GatewayResponseError) as error:
                if not _is_about_document(error):
                    raise
                failed.append({"source": item.source, "reason": str(error)})
            except ToolgateError as error:
                failed.append({"source": item.source, "reason": str(error)})
            else:
                done[str(answer["status"])].append(item.source)
                passages += int(answer["passages"])
    present = {(item.origin, item.source) for item in found.items}
    gone = [
        row for key, row in before.items() if row["origin"] in found.folders and key not in present
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
        "failed": failed,
        "skipped": found.skipped,
        "passages": passages,
    }


async def _one(
    gateway: GatewayClient,
    settings: Settings,
    path: str,
    item: Item,
    before: dict[tuple[str, str], Json],
) -> Json:
    material = await read(item, settings)
    known = before.get((item.origin, item.source))
    if known is not None and known["sha256"] == material.sha256 and known["is_current"]:
        return {"status": "unchanged", "passages": known["passages"]}
    text = await converted(item, material, settings)
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


def _is_about_document(error: ToolgateError) -> bool:
    """Whether an error is about one document, so that the others go on."""
    code = error.kind if isinstance(error, GatewayResponseError) else error.code
    return code in {"document", "argument", "missing_extra"}


def _report(summaries: Sequence[Json], as_json: bool) -> int:
    if as_json:
        print_json(summaries[0] if len(summaries) == 1 else {"collections": list(summaries)})
    is_any = False
    for each in summaries:
        counts = {
            key: len(cast("Sequence[Any]", each[key]))
            for key in ("added", "replaced", "unchanged", "removed")
        }
        is_any = is_any or any(counts.values())
        if not as_json:
            said = ", ".join(f"{count} {key}" for key, count in counts.items() if count)
            print_text(f"{each['collection']}: {said or 'nothing was added'}.")
            for failure in cast("Sequence[Json]", each["failed"]):
                note(f"Not added: {failure['reason']}")
            if each["skipped"]:
                note(f"{counted(len(each['skipped']), 'file')} skipped: no documents.")
    if any(each["failed"] for each in summaries):
        return FAILED
    return FINE if is_any else NOTHING


async def _list(name: str | None, as_json: bool) -> int:
    rows: list[Json] = []
    async with open_gateway(load_settings(), connect=()) as gateway:
        for each in await _names(gateway, name):
            rows += [{"collection": each, **row} for row in await _known(gateway, each)]
    if as_json:
        print_json({"documents": rows})
    elif rows:
        print_table(
            ("Collection", "Source", "Passages", "Added", "Title"),
            [
                (
                    row["collection"],
                    row["source"],
                    str(row["passages"]),
                    local_time(row["added_at"]),
                    row["title"],
                )
                for row in rows
            ],
            spare=("Added",),
        )
    else:
        note("There are no documents. Add some: toolgate docs add FILES")
    return FINE if rows else NOTHING


async def _collections(as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        answer = await gateway.request("GET", "collections")
    found = cast("list[Json]", answer["collections"])
    if as_json:
        print_json(answer)
    elif found:
        print_table(
            ("Name", "Documents", "Passages", "Model", "Metric", "Place", "Description"),
            [
                (
                    row["name"] + (f" ({row['alias']})" if row["alias"] else ""),
                    str(row["documents"]),
                    str(row["passages"]),
                    row["model"],
                    row["metric"],
                    row["place"],
                    row["description"],
                )
                for row in found
            ],
            spare=("Place", "Metric"),
        )
        for row in found:
            if row["problem"]:
                note(f"{row['name']}: {row['problem']}")
    else:
        note("There are no collections. Make one: toolgate docs add FILES --collection NAME")
    return FINE if found else NOTHING


async def _search(body: Json, whole: bool, as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        found = await gateway.request("POST", "retrieve", body)
    documents = cast("list[Json]", found["documents"])
    if as_json:
        print_json(found)
        return FINE if documents else FAILED if found["status"] == "error" else NOTHING
    for number, each in enumerate(documents, 1):
        about = each["metadata"]
        similarity = about["similarity_score"]
        shown = "" if similarity is None else f"  {similarity:.3f}"
        print_text(f"[{number}] {about['citation']}  ({about['searched_table']}){shown}")
        text = str(each["page_content"]).strip()
        text = text if whole or len(text) <= _SHOWN else text[:_SHOWN].rstrip() + " …"
        print_text("    " + text.replace("\n", "\n    "))
    if found["relevant"] == "no":
        note("The chat model says that none of these helps.")
    for name, why in cast("dict[str, str]", found.get("failures") or {}).items():
        note(f"{name} was not searched: {why}")
    if documents:
        return FINE
    if found["status"] == "error":
        note(str(found["error"]))
        note("Add documents with: toolgate docs add FILES")
        return FAILED if found.get("failures") else NOTHING
    note("Nothing was found.")
    return NOTHING


async def _remove(named: list[str], origins: list[str], name: str, as_json: bool) -> int:
    path = path_of("collections", name)
    async with open_gateway(load_settings(), connect=()) as gateway:
        if named:
            wanted = {"sources": named, "origins": origins}
            answer = await gateway.request("POST", f"{path}/remove", wanted)
        else:
            answer = await gateway.request("DELETE", path)
    if not named:
        if as_json:
            print_json(answer)
        else:
            print_text(f"Removed {name} with {counted(answer['documents'], 'document')}.")
        return FINE
    removed = cast("list[str]", answer["removed"])
    if as_json:
        print_json(answer)
    elif removed:
        print_text(f"Removed {counted(len(removed), 'document')} from {name}.")
    else:
        note(f"{name} has none of these. See: toolgate docs list")
    return FINE if removed else NOTHING


async def _reindex(name: str, wanted: dict[str, str | None], as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        made = await gateway.request("POST", path_of("collections", name, "reindex"), dict(wanted))
    if as_json:
        print_json(made)
    else:
        print_text(
            f"{made['name']}: vectors of {counted(made['passages'], 'passage')} by {made['model']},"
            f" {made['metric']}, in {made['place']}."
        )
    return FINE


async def _names(gateway: GatewayClient, name: str | None) -> list[str]:
    if name is not None:
        return [name]
    return [str(row["name"]) for row in await gateway.rows("collections")]


async def _known(gateway: GatewayClient, name: str) -> list[Json]:
    answer = await gateway.request("GET", path_of("collections", name, "documents"))
    return cast("list[Json]", answer["documents"])
