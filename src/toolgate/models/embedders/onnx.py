"""The embedder `onnx`: a local model that runs on this machine; nothing is downloaded.

The folder contains `model.onnx` and `tokenizer.json`, as many models are published; `toolgate
embedder export` creates one from a folder of sentence-transformers. What a model needs (pooling,
prefixes, length) may be in the metadata of its file; options take precedence.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, cast

import anyio.to_thread
import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from tokenizers import Tokenizer

from toolgate.base.validation import check_ranges, unfit
from toolgate.errors import EmbedderError
from toolgate.models.embedders._metadata import PREFIX
from toolgate.models.embedders.base import Reads, TextKind, Vectors

_MODEL = "model.onnx"
_TOKENIZER = "tokenizer.json"
_LONGEST = 512
"""Tokens of a text if neither options nor file set a limit: as in training of BERT-like
encoders."""
_ENGLISH_PIECES = 100_000
"""Most subwords in a vocabulary for English: BERT has 30,522, ModernBERT 50,368; mBERT and
XLM-RoBERTa, which know many languages, have 119,547 and 250,002."""

_TOKEN_CHARS = 24
"""Most characters per token; text beyond this many times the number of tokens is not read
(chosen)."""

_APART = 1e-4
"""Difference from which the vector of a text depends on the other texts of its batch (chosen)."""

_PROBES = (
    "Send a message.",
    "Send a message to each member of the team when the build fails. " * 3,
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the embedder `onnx`."""

    folder: str
    """Folder with `model.onnx` and `tokenizer.json`."""

    pooling: Literal["mean", "cls"] | None = None
    """How a text's vector is computed from those of its tokens: their mean, or the first one's.
    Default: as in the file, else `mean`."""

    query_prefix: str | None = None
    """Text put before requests. Default: as in the file, else nothing."""

    document_prefix: str | None = None
    """Text put before descriptions. Default: as in the file, else nothing."""

    max_length: int | None = None
    """Tokens after which a text is cut; 8 to 8,192. Default: as in the file, else 512."""

    normalize: bool = True
    """Whether to scale vectors to length 1; if not, the model must do so itself."""

    reads: Reads | None = None
    """What the model reads: `english`, or `many` languages. Default: `many` if its vocabulary
    has more than 100,000 subwords."""

    batch: int = 16
    """Texts in a batch; 1 to 256. Models whose vectors depend on the other texts of a batch,
    such as int8 models, get one text at a time."""

    threads: int = 1
    """CPU cores for a computation; 1 to 64."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OptionError: A value is out of range.
        """
        if not self.folder.strip():
            allowed = f"a folder with {_MODEL} and {_TOKENIZER}"
            hint = "Make one with: toolgate embedder export"
            raise unfit("folder", self.folder, allowed, hint=hint)
        check_ranges(self, {"max_length": (8, 8_192), "batch": (1, 256), "threads": (1, 64)})


def build(options: Options) -> "OnnxEmbedder":
    """Create the embedder, which reads the files when it gets its first text."""
    return OnnxEmbedder(options)


class OnnxEmbedder:
    """Vectors from an ONNX model, which is loaded once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._read: _Model | None = None
        self._reading = threading.Lock()

    @property
    def identity(self) -> str:
        """Folder name, dimension, and a hash of the files and options that change vectors."""
        return self._model.identity

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._model.dim

    @property
    def reads(self) -> Reads:
        """Languages by the options, else by the size of the model's vocabulary."""
        if self._options.reads is not None:
            return self._options.reads
        try:
            return self._model.reads
        except EmbedderError:
            return "english"

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return vectors of shape `(len(texts), dim)`; texts without letters or signs give zeros.

        Raises:
            EmbedderError: A file is missing, truncated or damaged, or the model fails.
        """
        return await anyio.to_thread.run_sync(
            self._compute, tuple(texts), kind, abandon_on_cancel=True
        )

    def _compute(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        return self._model.vectors(texts, kind)

    @property
    def _model(self) -> "_Model":
        if self._read is None:
            with self._reading:
                if self._read is None:
                    self._read = _Model(self._options)
        return self._read


class _Model:
    """A loaded model with its tokenizer."""

    def __init__(self, options: Options) -> None:
        folder = Path(options.folder).expanduser()
        self._folder = folder
        self._session = _session(folder, options.threads)
        properties = cast("Mapping[str, str]", self._session.get_modelmeta().custom_metadata_map)
        written = {name: properties.get(PREFIX + name) for name in ("pooling", "query_prefix")}
        self._pooling = options.pooling or written["pooling"] or "mean"
        self._prefixes: dict[TextKind, str] = {
            "query": _first(options.query_prefix, written["query_prefix"]),
            "document": _first(options.document_prefix, properties.get(PREFIX + "document_prefix")),
        }
        self._length = (
            options.max_length or _whole(properties.get(PREFIX + "max_length")) or _LONGEST
        )
        self._normalize = options.normalize
        self._tokenizer, self._pad = _tokenizer(folder, self._length)
        pieces = int(self._tokenizer.get_vocab_size())
        self.reads: Reads = "many" if pieces > _ENGLISH_PIECES else "english"
        self._inputs = [node.name for node in self._session.get_inputs()]
        unknown = set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids"}
        if "input_ids" not in self._inputs or unknown:
            raise self._failed(f"it takes {', '.join(self._inputs)}")
        names = [node.name for node in self._session.get_outputs()]
        self._output = next(
            (name for name in ("last_hidden_state", "token_embeddings") if name in names), names[0]
        )
        self._batch = 1
        alone = np.concatenate([self._run([self._pieces(text)]) for text in _PROBES])
        self.dim = int(alone.shape[1])
        if options.batch > 1:
            together = self._run([self._pieces(text) for text in _PROBES])
            if float(np.abs(alone - together).max()) <= _APART:
                self._batch = options.batch
        self.identity = f"onnx/{folder.name}/{self.dim}/{self._digest()}"

    def vectors(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Compute batches of texts of similar length, since padding costs time."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        numbers = [number for number, text in enumerate(texts) if text.strip()]
        pieces = {number: self._pieces(self._prefixes[kind] + texts[number]) for number in numbers}
        numbers.sort(key=lambda number: len(pieces[number]))
        for at in range(0, len(numbers), self._batch):
            part = numbers[at : at + self._batch]
            vectors[part] = self._run([pieces[number] for number in part])
        return vectors

    def _pieces(self, text: str) -> list[int]:
        plain = text[: self._length * _TOKEN_CHARS].encode(errors="replace").decode()
        return cast("list[int]", self._tokenizer.encode(plain).ids)

    def _run(self, pieces: Sequence[list[int]]) -> Vectors:
        longest = max(1, *(len(text_pieces) for text_pieces in pieces))
        ids = np.full((len(pieces), longest), self._pad, np.int64)
        mask = np.zeros((len(pieces), longest), np.int64)
        for row, text_pieces in enumerate(pieces):
            ids[row, : len(text_pieces)] = text_pieces
            mask[row, : len(text_pieces)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            answer = self._session.run(
                [self._output], {name: inputs[name] for name in self._inputs}
            )
        except Exception as error:  # its library raises many kinds
            raise self._failed(_line_of(error)) from error
        output = np.asarray(answer[0], np.float32)
        if output.ndim == 3:
            output = self._pooled(output, mask)
        if output.ndim != 2 or len(output) != len(pieces):
            raise self._failed(f"its output {self._output!r} has shape {output.shape}")
        if not self._normalize:
            return output
        lengths = np.linalg.norm(output, axis=1, keepdims=True)
        return np.divide(output, lengths, out=np.zeros_like(output), where=lengths > 0)

    def _pooled(self, output: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._pooling == "cls":
            return output[:, 0]
        if self._pooling != "mean":
            raise self._failed(f"its pooling {self._pooling!r} is not known")
        weights = mask.astype(np.float32)[:, :, None]
        return (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)

    def _digest(self) -> str:
        digest = blake2b(digest_size=6)
        for name in (_MODEL, _TOKENIZER):
            with (self._folder / name).open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        more = (self._pooling, *self._prefixes.values(), self._length, self._normalize)
        digest.update("\0".join(map(str, more)).encode(errors="replace"))
        return digest.hexdigest()

    def _failed(self, reason: str) -> EmbedderError:
        return EmbedderError(
            f"The embedding model in {str(self._folder)!r} cannot be used: {reason}.",
            allowed="Search goes on with words alone.",
            hint="Create the folder again with: toolgate embedder export",
        )


def _session(folder: Path, threads: int) -> Any:
    """Load the model."""
    path = _file(folder, _MODEL)
    library: Any = onnxruntime  # its types are not known
    options = library.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are raised, and reported below
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its library raises many kinds
        raise _broken(path, error) from error


def _tokenizer(folder: Path, longest: int) -> tuple[Any, int]:
    """Return the tokenizer and its padding id."""
    path = _file(folder, _TOKENIZER)
    try:
        tokenizer: Any = Tokenizer.from_file(str(path))
        padding: Any = tokenizer.padding or {}
        tokenizer.no_padding()
        tokenizer.enable_truncation(longest)
    except Exception as error:  # its library raises plain exceptions
        raise _broken(path, error) from error
    return tokenizer, int(padding.get("pad_id", 0))


def _file(folder: Path, name: str) -> Path:
    path = folder / name
    if path.is_file():
        return path
    reason = f"has no {name}" if folder.is_dir() else "does not exist"
    raise EmbedderError(
        f"The folder {str(folder)!r} of the embedder 'onnx' {reason}.",
        allowed=f"It needs {_MODEL} and {_TOKENIZER}; search goes on with words alone.",
        hint="Correct folder under search.embedder_options, or run: toolgate embedder export",
    )


def _broken(path: Path, error: Exception) -> EmbedderError:
    return EmbedderError(
        f"The file {str(path)!r} of the embedder 'onnx' cannot be read: {_line_of(error)}.",
        allowed="Search goes on with words alone.",
        hint="It may be cut off or damaged: copy it again, or run: toolgate embedder export",
    )


def _line_of(error: Exception) -> str:
    """Return the first line of a library's message, without its own prefixes and final stop."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rpartition(" : ")[2].rpartition(" failed:")[2][:200].rstrip(". ")


def _first(*texts: str | None) -> str:
    return next((text for text in texts if text is not None), "")


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
