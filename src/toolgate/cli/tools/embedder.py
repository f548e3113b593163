"""`toolgate embedder`: test the configured embedder, or export a model for `onnx`."""

from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from toolgate.base.plugins import make
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._output import print_json, print_result, print_text, spinner
from toolgate.models.embedders import Embedder, VerifiedEmbedder
from toolgate.settings import Settings
from toolgate.types import Json, PluginSpec

app = CommandApp()


@app.command("test")
async def check(as_json: AsJson = False) -> None:
    """Load and test the configured embedder, and measure its speed.

    JSON: {"embedder", "identity", "dim", "load_s", "ms_per_text"}
    """
    with spinner("Testing"):
        result = await test_embedder(load_settings())
    print_result(
        result,
        f"{result['identity']} works: {result['dim']} dimensions, loaded in"
        f" {result['load_s']:.2f} s, {result['ms_per_text']:.2f} ms per text.",
        as_json=as_json,
    )


@app.command()
def export(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SENTENCE_TRANSFORMERS_FOLDER",
            help="Folder of a sentence-transformers model.",
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to create.")],
    query_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Prefix for requests, if the model needs one."),
    ] = None,
    document_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Prefix for descriptions, if the model needs one."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--float", help="Keep float weights: four times the size.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Export a model for the `onnx` embedder, with int8 weights and one scale per channel.

    Requires torch (extra `export`); using the exported model does not. Nothing is downloaded.

    JSON: {"folder", "identity", "dim", "size_bytes", "pooling", "max_length", "query_prefix",
    "document_prefix", "cosine"}
    """
    spec = PluginSpec(name="onnx", options={"folder": str(out)}, setting="search.embedder")
    make("embedder", Embedder, spec, {})  # fails early if a library is missing
    exporter: Any = import_module("toolgate.models.embedders._onnx_export")
    with spinner("Exporting"):
        exported = exporter.export(
            source.expanduser(),
            out.expanduser(),
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            whole=whole,
        )
    if as_json:
        print_json(asdict(exported))
        return
    print_text(
        f"Wrote {exported.folder}: {exported.size_bytes / 1e6:.0f} MB, {exported.dim} dimensions,"
        f" {exported.pooling} pooling, {exported.max_length} tokens."
    )
    print_text(f"Cosine similarity to the original: at least {exported.cosine:.3f}.")
    print_text("To use it, add to toolgate.toml:")
    print_text("    [search]")
    print_text('    embedder = "onnx"')
    print_text(f'    embedder_options = {{ folder = "{out.expanduser().resolve()}" }}')


async def test_embedder(loaded: Settings) -> Json:
    """Test the configured embedder and measure its speed.

    Raises:
        ToolgateError: It cannot be used.
    """
    spec = PluginSpec(
        name=loaded.search.embedder,
        options=loaded.search.embedder_options,
        options_at="search.embedder_options",
        setting="search.embedder",
    )
    embedder = VerifiedEmbedder(make("embedder", Embedder, spec, {}))
    texts = [f"Send message number {number} to the team." for number in range(20)]
    try:
        began = perf_counter()
        await embedder.embed([], "query")
        loaded_s = perf_counter() - began
        began = perf_counter()
        for text in texts:
            await embedder.embed([text], "query")
        each_ms = (perf_counter() - began) * 1000 / len(texts)
        return {
            "embedder": spec.name,
            "identity": embedder.identity,
            "dim": embedder.dim,
            "load_s": round(loaded_s, 3),
            "ms_per_text": round(each_ms, 3),
        }
    finally:
        await embedder.aclose()
