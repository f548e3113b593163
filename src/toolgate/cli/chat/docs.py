"""`toolgate docs`: import, list, search and remove documents."""

from pathlib import Path
from typing import Annotated, cast

import anyio
import typer

from toolgate.cli.chat._collect_files import collect_files, is_address
from toolgate.cli.chat._import_documents import documents_of, report_import, synchronize
from toolgate.cli.client._gateway_client import GatewayClient, path_of
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import (
    local_time,
    note,
    plural,
    print_json,
    print_result,
    print_table,
    print_text,
)
from toolgate.errors import ArgumentError
from toolgate.types import Json

app = CommandApp()

_DEFAULT_COLLECTION = "documents"

_PREVIEW_CHARS = 300
"""Characters shown of a passage without --whole (chosen)."""

Collection = Annotated[
    str,
    typer.Option("--collection", "-c", metavar="NAME", help="Name of the collection."),
]
OptionalCollection = Annotated[
    str | None,
    typer.Option("--collection", "-c", metavar="NAME", help="Only this collection."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Embedding model: a name in documents.models, or an embedder.",
    ),
]
Metric = Annotated[
    str | None, typer.Option("--metric", help="Similarity metric: cosine, euclidean, dot.")
]
VectorStore = Annotated[
    str | None,
    typer.Option("--place", help="Vector store: auto, sqlite, pgvector, milvus or qdrant."),
]


@app.command()
async def add(
    named: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES|FOLDERS|URLS...",
            help="Markdown, HTML, PDF, DOCX, text or CSV; folders are imported recursively.",
        ),
    ],
    collection: Collection = _DEFAULT_COLLECTION,
    alias: Annotated[str | None, typer.Option("--alias", help="Alias of the collection.")] = None,
    description: Annotated[
        str | None,
        typer.Option(
            "--description",
            help="Description of the collection; models use it to choose collections.",
        ),
    ] = None,
    model: Model = None,
    metric: Metric = None,
    vector_store: VectorStore = None,
    as_json: AsJson = False,
) -> int:
    """Import documents. Unchanged files are skipped; files deleted from a folder are removed."""
    collection_options = {
        "alias": alias,
        "description": description,
        "model": model,
        "metric": metric,
        "place": vector_store,
    }
    settings = load_settings()
    collected = await anyio.to_thread.run_sync(collect_files, named)
    if not collected.items and not collected.folders:
        raise ArgumentError(
            " ".join(why for _, why in collected.problems), hint="Name files, folders or URLs."
        )
    async with open_gateway(settings, connect=()) as gateway:
        await gateway.request("POST", "collections", {"name": collection, **collection_options})
        summary = await synchronize(gateway, settings, collection, collected)
    return report_import([summary], as_json)


@app.command()
async def refresh(collection: OptionalCollection = None, as_json: AsJson = False) -> int:
    """Update all added sources: import new and changed files and pages, remove deleted ones."""
    settings = load_settings()
    summaries: list[Json] = []
    async with open_gateway(settings, connect=()) as gateway:
        for name in await _collection_names(gateway, collection):
            documents = await documents_of(gateway, name)
            origins = list(dict.fromkeys(row["origin"] for row in documents if row["origin"]))
            collected = await anyio.to_thread.run_sync(collect_files, origins)
            gone = [origin for origin, _ in collected.problems]
            collected.problems.clear()
            collected.folders += gone  # deleted since: remove all of their documents
            summaries.append(await synchronize(gateway, settings, name, collected))
    return report_import(summaries, as_json)


@app.command("list")
async def list_documents(collection: OptionalCollection = None, as_json: AsJson = False) -> int:
    """List the documents."""
    rows: list[Json] = []
    async with open_gateway(connect=()) as gateway:
        for name in await _collection_names(gateway, collection):
            rows += [{"collection": name, **row} for row in await documents_of(gateway, name)]
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


@app.command()
async def collections(as_json: AsJson = False) -> int:
    """List the collections with their size and settings."""
    async with open_gateway(connect=()) as gateway:
        answer = await gateway.request("GET", "collections")
    rows = cast("list[Json]", answer["collections"])
    if as_json:
        print_json(answer)
    elif rows:
        print_table(
            ("Name", "Documents", "Passages", "Model", "Metric", "Vector store", "Description"),
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
            spare=("Vector store", "Metric"),
        )
        for row in rows:
            if row["problem"]:
                note(f"{row['name']}: {row['problem']}")
    else:
        note("There are no collections. Create one: toolgate docs add FILES --collection NAME")
    return SUCCESS if rows else NO_RESULT


@app.command()
async def search(
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="What to search for.")],
    collection: Annotated[
        list[str] | None,
        typer.Option(
            "--collection", "-c", metavar="NAME", help="Only this collection. Can be repeated."
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", metavar="N", help="Maximum number of passages.")
    ] = None,
    search_type: Annotated[
        str | None,
        typer.Option(
            "--type", help="Search type: similarity, similarity_score_threshold, mmr or hybrid."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Minimum similarity, for similarity_score_threshold."),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Show the full passages.")] = False,
    as_json: AsJson = False,
) -> int:
    """Search the documents as a model does."""
    body: Json = {
        "question": " ".join(question),
        "collections": collection,
        "top_k": top_k,
        "search_type": search_type,
        "score_threshold": threshold,
    }
    if threshold is not None and search_type is None:
        body["search_type"] = "similarity_score_threshold"
    async with open_gateway(connect=()) as gateway:
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
        note("The chat model judges none of these as relevant.")
    for name, why in cast("dict[str, str]", answer.get("failures") or {}).items():
        note(f"{name} was not searched: {why}")
    if documents:
        return SUCCESS
    if answer["status"] == "error":
        note(str(answer["error"]))
        note("Add documents with: toolgate docs add FILES")
        return FAILED if answer.get("failures") else NO_RESULT
    note("No results.")
    return NO_RESULT


@app.command()
async def remove(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DOCUMENTS]...",
            help="Sources as shown by `docs list`, or the folder, file or URL that you added.",
        ),
    ] = None,
    collection: Collection = _DEFAULT_COLLECTION,
    everything: Annotated[bool, typer.Option("--all", help="Remove the whole collection.")] = False,
    as_json: AsJson = False,
) -> int:
    """Remove documents, or a whole collection."""
    if bool(named) == everything:
        raise ArgumentError(
            "Either documents or --all must be given.",
            hint="Run: toolgate docs remove SOURCE, or: toolgate docs remove --all -c NAME",
        )
    path = path_of("collections", collection)
    async with open_gateway(connect=()) as gateway:
        if named:
            body = {"sources": named, "origins": [_origin(source) for source in named]}
            answer = await gateway.request("POST", f"{path}/remove", body)
        else:
            answer = await gateway.request("DELETE", path)
    if not named:
        print_result(
            answer,
            f"Removed {collection} with {plural(answer['documents'], 'document')}.",
            as_json=as_json,
        )
        return SUCCESS
    removed = cast("list[str]", answer["removed"])
    if as_json:
        print_json(answer)
    elif removed:
        print_text(f"Removed {plural(len(removed), 'document')} from {collection}.")
    else:
        note(f"{collection} contains none of these. See: toolgate docs list")
    return SUCCESS if removed else NO_RESULT


@app.command()
async def reindex(
    collection: Annotated[
        str, typer.Argument(metavar="COLLECTION", help="Name of the collection.")
    ],
    model: Model = None,
    metric: Metric = None,
    vector_store: VectorStore = None,
    as_json: AsJson = False,
) -> None:
    """Recompute a collection's vectors, optionally with another model, metric or vector store."""
    options: Json = {"model": model, "metric": metric, "place": vector_store}
    async with open_gateway(connect=()) as gateway:
        done = await gateway.request("POST", path_of("collections", collection, "reindex"), options)
    print_result(
        done,
        f"Reindexed {plural(done['passages'], 'passage')} of {done['name']}:"
        f" {done['model']}, {done['metric']}, in {done['place']}.",
        as_json=as_json,
    )


def _origin(source: str) -> str:
    """Return the address or the absolute path of what was imported."""
    return source if is_address(source) else str(Path(source).resolve())


async def _collection_names(gateway: GatewayClient, name: str | None) -> list[str]:
    if name is not None:
        return [name]
    return [str(row["name"]) for row in await gateway.rows("collections")]
