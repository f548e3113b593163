"""Exports a sentence-transformers model for the embedder `onnx`.

The only module that uses torch. Weights are quantized to int8 with one scale per output channel,
which gives a quarter of the size and twice the speed; the loss is measured and reported.
"""

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from toolgate.base.installation import install_hint
from toolgate.errors import EmbedderError, MissingExtraError, OptionError
from toolgate.models.embedders._metadata import PREFIX
from toolgate.models.embedders.onnx import Options, build
from toolgate.types import Json, json_array, json_object

_LIBRARIES = ("torch", "transformers", "onnx", "onnxruntime.quantization")
_OPSET = 17
"""Version of the ONNX operators (chosen)."""
_LEAST = 0.9
"""Lowest cosine to the original model that an export may have (chosen)."""

_SAMPLES = (
    "Create an issue in a repository.",
    "What will the weather be in Tokyo tomorrow?",
    "files read_file: Read the contents of a file. Parameters: path; encoding",
    "Send an e-mail to somebody.",
    "Convert 50 dollars to euros and tell me which bank has the best rate, then book a flight.",
)


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The result of an export."""

    folder: str
    """Path of the folder."""

    identity: str
    """The embedder's identity."""

    dim: int
    """Dimension of the vectors."""

    size_bytes: int
    """Bytes of both files."""

    pooling: str
    """`mean` or `cls`."""

    max_length: int
    """Tokens after which a text is cut."""

    query_prefix: str
    """Text put before requests."""

    document_prefix: str
    """Text put before descriptions."""

    cosine: float
    """Lowest cosine between a sample's vector and that of the original model; 1 means equal."""


def export(
    source: Path,
    folder: Path,
    *,
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    whole: bool = False,
) -> Exported:
    """Export `source`, a folder of sentence-transformers, to `folder`.

    Args:
        source: Contains `modules.json`, `config.json`, weights and `tokenizer.json`.
        folder: Must be empty or not exist.
        query_prefix: Text put before requests; None: as in the source.
        document_prefix: Text put before descriptions; None: as in the source.
        whole: Whether to leave the weights unquantized.

    Raises:
        MissingExtraError: A library is not installed.
        OptionError: The source is not such a folder, or the target is not empty.
        EmbedderError: The vectors of the result differ from those of the original.
    """
    plan = _plan(source)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(
            f"The folder {str(folder)!r} already exists.",
            hint="Choose a folder that does not exist, or empty this one.",
        )
    torch, transformers, onnx, quantization = map(_library, _LIBRARIES)
    prefixes = {
        "query_prefix": plan.query_prefix if query_prefix is None else query_prefix,
        "document_prefix": plan.document_prefix if document_prefix is None else document_prefix,
    }
    transformers.logging.disable_progress_bar()
    model = _encoder(torch, transformers.AutoModel, plan.weights)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "model.onnx"
    with tempfile.TemporaryDirectory() as scratch, _quiet():
        first = Path(scratch) / "float.onnx"
        _write(torch, model, first)
        if whole:
            shutil.copyfile(first, target)
        else:
            quantization.quantize_dynamic(
                str(first), str(target), per_channel=True, weight_type=quantization.QuantType.QInt8
            )
    shutil.copyfile(plan.tokenizer, folder / "tokenizer.json")
    written = onnx.load(str(target))
    properties = {"pooling": plan.pooling, "max_length": str(plan.max_length), **prefixes}
    onnx.helper.set_model_props(
        written, {PREFIX + name: value for name, value in properties.items() if value}
    )
    onnx.save(written, str(target))
    exported = build(Options(folder=str(folder), query_prefix="", document_prefix=""))
    vectors = anyio.run(exported.embed, _SAMPLES, "document")
    expected = _original(torch, transformers, model, plan)
    cosine = float((vectors * expected).sum(axis=1).min())
    if cosine < _LEAST:
        raise EmbedderError(
            f"The exported model gives vectors that differ from the original: cosine {cosine:.2f}.",
            hint="Export it with --float, or use another model.",
        )
    final = build(Options(folder=str(folder)))
    return Exported(
        folder=str(folder),
        identity=final.identity,
        dim=final.dim,
        size_bytes=sum(path.stat().st_size for path in folder.iterdir()),
        pooling=plan.pooling,
        max_length=plan.max_length,
        cosine=round(cosine, 4),
        **prefixes,
    )


@dataclass(frozen=True, kw_only=True)
class _ExportPlan:
    """What the source folder says about the model."""

    weights: Path
    tokenizer: Path
    pooling: str
    max_length: int
    query_prefix: str
    document_prefix: str


def _plan(source: Path) -> _ExportPlan:
    """Read the files that describe the source.

    Raises:
        OptionError: It is not such a folder, or a kind of model that cannot be exported.
    """
    if not (source / "modules.json").is_file():
        raise _unfit(source, "has no modules.json")
    parts = [json_object(part) for part in json_array(_json(source / "modules.json"))]
    kinds = [str(part.get("type", "")).rpartition(".")[2] for part in parts]
    places = dict(zip(kinds, (str(part.get("path", "")) for part in parts), strict=True))
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise _unfit(source, f"has the modules {', '.join(kinds) or 'none'}")
    pooling = json_object(_json(source / places["Pooling"] / "config.json"))
    weights = source / places["Transformer"]
    if not (weights / "tokenizer.json").is_file():
        raise _unfit(source, "has no tokenizer.json")
    limits = [
        json_object(_json(weights / "sentence_bert_config.json")).get("max_seq_length"),
        json_object(_json(weights / "config.json")).get("max_position_embeddings"),
    ]
    lengths = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    prompts = json_object(
        json_object(_json(source / "config_sentence_transformers.json")).get("prompts")
    )
    return _ExportPlan(
        weights=weights,
        tokenizer=weights / "tokenizer.json",
        pooling=_pooling(source, pooling),
        max_length=min([*lengths, 8_192]),
        query_prefix=str(prompts.get("query") or ""),
        document_prefix=str(prompts.get("document") or prompts.get("passage") or ""),
    )


def _pooling(source: Path, config: Json) -> str:
    """Return `mean` or `cls`; older folders use one flag for each, newer ones a single word."""
    chosen = {name.removeprefix("pooling_mode_") for name, value in config.items() if value is True}
    chosen &= {"mean_tokens", "cls_token", "max_tokens", "mean_sqrt_len_tokens", "lasttoken"}
    word = str(config.get("pooling_mode") or config.get("pooling") or "")
    if word:
        chosen = {word}
    if chosen <= {"mean_tokens", "mean"} and chosen:
        return "mean"
    if chosen <= {"cls_token", "cls"} and chosen:
        return "cls"
    raise _unfit(source, f"pools by {', '.join(sorted(chosen)) or 'nothing'}")


def _unfit(source: Path, reason: str) -> OptionError:
    return OptionError(
        f"The folder {str(source)!r} {reason}.",
        allowed="Allowed: models of sentence-transformers with a Transformer, a Pooling by mean or "
        "cls, and perhaps Normalize.",
        hint="Name the folder that has modules.json.",
    )


def _json(path: Path) -> object:
    """Return the content of a JSON file; an empty object if it does not exist."""
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(
            f"{path} cannot be read: {error}.", hint="Copy the folder again."
        ) from error


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"Exporting a model needs the library {error.name!r}, which is not installed.",
            hint=install_hint("export"),
        ) from error


def _encoder(torch: Any, auto_model: Any, weights: Path) -> Any:
    """Return the model as a function of two matrices."""
    try:
        model = auto_model.from_pretrained(
            str(weights), attn_implementation="eager", local_files_only=True
        )
    except Exception as error:  # its library raises many types
        raise OptionError(
            f"The model in {str(weights)!r} cannot be loaded: {str(error).splitlines()[0]}.",
            hint="Copy the folder again, with its weights.",
        ) from error

    class Encoder(torch.nn.Module):  # the base is known at run time only
        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.model = model.eval()

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]

    return Encoder().eval()


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress warnings of the exporters that users can do nothing about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _write(torch: Any, model: Any, path: Path) -> None:
    names = ["input_ids", "attention_mask"]
    example = (torch.ones(2, 8, dtype=torch.long), torch.ones(2, 8, dtype=torch.long))
    torch.onnx.export(
        model,
        example,
        str(path),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in (*names, "last_hidden_state")},
        opset_version=_OPSET,
        dynamo=False,  # the newer exporter needs another library and six times as long
    )


def _original(torch: Any, transformers: Any, model: Any, plan: _ExportPlan) -> NDArray[np.float32]:
    """Return the vectors of the samples, computed by the original model."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(plan.weights), local_files_only=True)
    rows: Sequence[NDArray[np.float32]] = []
    with torch.no_grad():
        for text in _SAMPLES:
            encoded = tokenizer(
                text, return_tensors="pt", truncation=True, max_length=plan.max_length
            )
            hidden = model(encoded["input_ids"], encoded["attention_mask"])[0].numpy()
            row = hidden[0] if plan.pooling == "cls" else hidden.mean(axis=0)
            rows = [*rows, row / np.linalg.norm(row)]
    return np.array(rows, np.float32)
