"""`toolgate docs`: documents are taken in, listed, searched and removed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import typer

from toolgate.cli.chat._collect_files import (
    CollectedFiles,
    SourceFile,
    collect_files,
    is_address,
    read_content,
    to_text,
)
from toolgate.cli.client._gateway_client import GatewayClient, GatewayResponseError, path_of
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import (
    local_time,
    note,
    plural,
    print_json,
    print_table,
    print_text,
    progress_bar,
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

_DEFAULT_COLLECTION = "documents"
_PREVIEW_CHARS = 300

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
    collection: In = _DEFAULT_COLLECTION,
    alias: Annotated[
        str | None, typer.Option("--alias", help="Another name of the collection.")
    ] = None,
    description: Annotated[
        str | None,
        typer.Option("--description", help="What is in the collection; models choose by it."),
    ] = None,
    model: Model = None,
    metric: Metric = None,
    vector_store: Place = None,
    as_json: AsJson = False,
) -> int:
    """Take documents in. What has not changed is skipped; what is gone from a folder is removed."""
    collection_options = {
        "alias": alias,
        "description": description,
        "model": model,
        "metric": metric,
        "place": vector_store,
    }
    return anyio.run(_add, named, collection, collection_options, as_json)


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
    collection: In = _DEFAULT_COLLECTION,
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
    origins = [
        source if is_address(source) else str(Path(source).resolve()) for source in named or ()
    ]
    return anyio.run(_remove, named or [], origins, collection, as_json)


@app.command()
def reindex(
    collection: Annotated[
        str, typer.Argument(metavar="COLLECTION", help="Name of the collection.")
    ],
    model: Model = None,
    metric: Metric = None,
    vector_store: Place = None,
    as_json: AsJson = False,
) -> int:
    """Compute the vectors of a collection anew, also for another model, metric or place."""
    options = {"model": model, "metric": metric, "place": vector_store}
    return anyio.run(_reindex, collection, options, as_json)


async def _add(
    named: list[str], name: str, collection_options: dict[str, str | None], as_json: bool
) -> int:
    settings = load_settings()
    collected = await anyio.to_thread.run_sync(collect_files, named)
    if not collected.items and not collected.folders:
        raise ArgumentError(
            " ".join(why for _, why in collected.problems), hint="Name files, folders or addresses."
        )
    async with open_gateway(settings, connect=()) as gateway:
        await gateway.request("POST", "collections", {"name": name, **collection_options})
        summary = await _synchronize(gateway, settings, name, collected)
    return _report([summary], as_json)


async def _refresh(name: str | None, as_json: bool) -> int:
    settings = load_settings()
    summaries: list[Json] = []
    async with open_gateway(settings, connect=()) as gateway:
        for collection in await _collection_names(gateway, name):
            documents = await _documents_of(gateway, collection)
            origins = list(dict.fromkeys(row["origin"] for row in documents if row["origin"]))
            collected = await anyio.to_thread.run_sync(collect_files, origins)
            gone = [origin for origin, _ in collected.problems]
            collected.problems.clear()
            collected.folders += gone  # nothing is left of them
            summaries.append(await _synchronize(gateway, settings, collection, collected))
    return _report(summaries, as_json)


async def _synchronize(
    gateway: GatewayClient, settings: Settings, name: str, collected: CollectedFiles
) -> Json:
    """Add what is new or changed, remove what is gone from folders; gives what was done."""
    path = path_of("collections", name)
    before = {(row["origin"], row["source"]): row for row in await _documents_of(gateway, name)}
    done: dict[str, list[str]] = {"added": [], "replaced": [], "unchanged": [], "removed": []}
    failed: list[Json] = [{"source": source, "reason": why} for source, why in collected.problems]
    passages = 0
    with progress_bar("Reading documents", len(collected.items)) as step:
        for item in collected.items:
            step(item.source)
            try:
                answer = await _add_document(gateway, settings, path, item, before)
            except (ConfigError, GatewayResponseError) as error:
                if not _concerns_one_document(error):
                    raise
                failed.append({"source": item.source, "reason": str(error)})
            except ToolgateError as error:
                failed.append({"source": item.source, "reason": str(error)})
            else:
                done[str(answer["status"])].append(item.source)
                passages += int(answer["passages"])
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
        "failed": failed,
        "skipped": collected.skipped,
        "passages": passages,
    }


async def _add_document(
    gateway: GatewayClient,
    settings: Settings,
    path: str,
    item: SourceFile,
    before: dict[tuple[str, str], Json],
) -> Json:
    material = await read_content(item, settings)
    stored = before.get((item.origin, item.source))
    if stored is not None and stored["sha256"] == material.sha256 and stored["is_current"]:
        return {"status": "unchanged", "passages": stored["passages"]}
    text = await to_text(item, material, settings)
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


def _concerns_one_document(error: ToolgateError) -> bool:
    """Whether an error is about one document, so that the others go on."""
    code = error.kind if isinstance(error, GatewayResponseError) else error.code
    return code in {"document", "argument", "missing_extra"}


def _report(summaries: Sequence[Json], as_json: bool) -> int:
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
            print_text(f"{summary['collection']}: {text or 'nothing was added'}.")
            for failure in cast("Sequence[Json]", summary["failed"]):
                note(f"Not added: {failure['reason']}")
            if summary["skipped"]:
                note(f"{plural(len(summary['skipped']), 'file')} skipped: no documents.")
    if any(summary["failed"] for summary in summaries):
        return FAILED
    return SUCCESS if is_any else NO_RESULT


async def _list(name: str | None, as_json: bool) -> int:
    rows: list[Json] = []
    async with open_gateway(load_settings(), connect=()) as gateway:
        for collection in await _collection_names(gateway, name):
            rows += [
                {"collection": collection, **row}
                for row in await _documents_of(gateway, collection)
            ]
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
    return SUCCESS if rows else NO_RESULT


async def _collections(as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        answer = await gateway.request("GET", "collections")
    rows = cast("list[Json]", answer["collections"])
    if as_json:
        print_json(answer)
    elif rows:
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
                for row in rows
            ],
            spare=("Place", "Metric"),
        )
        for row in rows:
            if row["problem"]:
                note(f"{row['name']}: {row['problem']}")
    else:
        note("There are no collections. Make one: toolgate docs add FILES --collection NAME")
    return SUCCESS if rows else NO_RESULT


async def _search(body: Json, whole: bool, as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        answer = await gateway.request("POST", "retrieve", body)
    documents = cast("list[Json]", answer["documents"])
    if as_json:
        print_json(answer)
        return SUCCESS if documents else FAILED if answer["status"] == "error" else NO_RESULT
    for number, document in enumerate(documents, 1):
        metadata = document["metadata"]
        similarity = metadata["similarity_score"]
        score = "" if similarity is None else f"  {similarity:.3f}"
        print_text(f"[{number}] {metadata['citation']}  ({metadata['searched_table']}){score}")
        text = str(document["page_content"]).strip()
        text = (
            text if whole or len(text) <= _PREVIEW_CHARS else text[:_PREVIEW_CHARS].rstrip() + " …"
        )
        print_text("    " + text.replace("\n", "\n    "))
    if answer["relevant"] == "no":
        note("The chat model says that none of these helps.")
    for name, why in cast("dict[str, str]", answer.get("failures") or {}).items():
        note(f"{name} was not searched: {why}")
    if documents:
        return SUCCESS
    if answer["status"] == "error":
        note(str(answer["error"]))
        note("Add documents with: toolgate docs add FILES")
        return FAILED if answer.get("failures") else NO_RESULT
    note("Nothing was found.")
    return NO_RESULT


async def _remove(named: list[str], origins: list[str], name: str, as_json: bool) -> int:
    path = path_of("collections", name)
    async with open_gateway(load_settings(), connect=()) as gateway:
        if named:
            body = {"sources": named, "origins": origins}
            answer = await gateway.request("POST", f"{path}/remove", body)
        else:
            answer = await gateway.request("DELETE", path)
    if not named:
        if as_json:
            print_json(answer)
        else:
            print_text(f"Removed {name} with {plural(answer['documents'], 'document')}.")
        return SUCCESS
    removed = cast("list[str]", answer["removed"])
    if as_json:
        print_json(answer)
    elif removed:
        print_text(f"Removed {plural(len(removed), 'document')} from {name}.")
    else:
        note(f"{name} has none of these. See: toolgate docs list")
    return SUCCESS if removed else NO_RESULT


async def _reindex(name: str, options: dict[str, str | None], as_json: bool) -> int:
    async with open_gateway(load_settings(), connect=()) as gateway:
        collection = await gateway.request(
            "POST", path_of("collections", name, "reindex"), dict(options)
        )
    if as_json:
        print_json(collection)
    else:
        print_text(
            f"Reindexed {plural(collection['passages'], 'passage')} of {collection['name']}:"
            f" {collection['model']}, {collection['metric']}, in {collection['place']}."
        )
    return SUCCESS


async def _collection_names(gateway: GatewayClient, name: str | None) -> list[str]:
    if name is not None:
        return [name]
    return [str(row["name"]) for row in await gateway.rows("collections")]


async def _documents_of(gateway: GatewayClient, name: str) -> list[Json]:
    answer = await gateway.request("GET", path_of("collections", name, "documents"))
    return cast("list[Json]", answer["documents"])
