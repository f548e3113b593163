"""The reranker `onnx`: a cross-encoder that runs on this machine; nothing is downloaded.

The folder contains `model.onnx` and `tokenizer.json`, as cross-encoders are published: the model
reads question and passage together and returns one number, or two, the second of which means
yes.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from tokenizers import Tokenizer

from toolgate.base.validation import check_ranges, unfit
from toolgate.errors import RerankerError
from toolgate.models.rerankers.base import CandidatePassage

_MODEL = "model.onnx"
_TOKENIZER = "tokenizer.json"
_CHARS_PER_TOKEN = 24
"""Most characters per token; text beyond this many times the number of tokens is not read."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the reranker `onnx`."""

    folder: str
    """Folder with `model.onnx` and `tokenizer.json`."""

    max_length: int = 512
    """Tokens of question and passage together after which they are cut; 16 to 8,192."""

    batch: int = 8
    """Passages in a batch; 1 to 256."""

    threads: int = 1
    """CPU cores for a computation; 1 to 64."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OptionError: A value is out of range.
        """
        if not self.folder.strip():
            raise unfit("folder", self.folder, f"a folder with {_MODEL} and {_TOKENIZER}")
        check_ranges(self, {"max_length": (16, 8_192), "batch": (1, 256), "threads": (1, 64)})


def build(options: Options) -> "OnnxReranker":
    """Create the reranker, which reads the files when it gets its first question."""
    return OnnxReranker(options)


class OnnxReranker:
    """Scores of a cross-encoder, which is loaded once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._loaded: _CrossEncoder | None = None
        self._loading = threading.Lock()

    async def scores(
        self, question: str, candidates: Sequence[CandidatePassage]
    ) -> Sequence[float]:
        """Return the model's scores for question and passages, read together.

        Raises:
            RerankerError: A file is missing, truncated or damaged, or the model fails.
        """
        if not candidates:
            return []
        texts = [candidate.full_text for candidate in candidates]
        return await anyio.to_thread.run_sync(self._compute, question, texts)

    def _compute(self, question: str, texts: Sequence[str]) -> list[float]:
        with self._loading:
            if self._loaded is None:
                self._loaded = _CrossEncoder(self._options)
        return self._loaded.scores(question, texts)


class _CrossEncoder:
    """A loaded model with its tokenizer."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._folder = Path(options.folder).expanduser()
        for name in (_MODEL, _TOKENIZER):
            if not (self._folder / name).is_file():
                raise self._failed(f"{name} is missing")
        library: Any = onnxruntime  # its types are not known
        session_options = library.SessionOptions()
        session_options.intra_op_num_threads = options.threads
        session_options.inter_op_num_threads = 1
        session_options.log_severity_level = 4  # errors are raised
        try:
            self._session: Any = library.InferenceSession(
                str(self._folder / _MODEL), session_options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer: Any = Tokenizer.from_file(str(self._folder / _TOKENIZER))
            padding: Any = self._tokenizer.padding or {}
            self._pad = int(padding.get("pad_id", 0))
            self._tokenizer.no_padding()
            self._tokenizer.enable_truncation(options.max_length, strategy="longest_first")
        except Exception as error:  # both libraries raise plain exceptions
            raise self._failed(_line_of(error)) from error
        self._inputs = [node.name for node in self._session.get_inputs()]
        if set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids"}:
            raise self._failed(f"it takes {', '.join(self._inputs)}")

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return one score per text; texts of similar length are batched, to save padding."""
        encoded = [self._encoded(question, text) for text in texts]
        order = sorted(range(len(texts)), key=lambda number: len(encoded[number][0]))
        scores = np.zeros(len(texts), np.float64)
        for at in range(0, len(order), self._options.batch):
            part = order[at : at + self._options.batch]
            scores[part] = self._run([encoded[number] for number in part])
        return [float(score) for score in scores]

    def _encoded(self, question: str, text: str) -> tuple[list[int], list[int]]:
        most = self._options.max_length * _CHARS_PER_TOKEN
        pair = [part[:most].encode(errors="replace").decode() for part in (question, text)]
        encoding = self._tokenizer.encode(*pair)
        return cast("list[int]", encoding.ids), cast("list[int]", encoding.type_ids)

    def _run(self, encoded: Sequence[tuple[list[int], list[int]]]) -> NDArray[np.float64]:
        longest = max(1, *(len(ids) for ids, _ in encoded))
        shape = (len(encoded), longest)
        inputs = {
            "input_ids": np.full(shape, self._pad, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
        }
        for row, (ids, types) in enumerate(encoded):
            inputs["input_ids"][row, : len(ids)] = ids
            inputs["attention_mask"][row, : len(ids)] = 1
            inputs["token_type_ids"][row, : len(ids)] = types
        try:
            answer = self._session.run(None, {name: inputs[name] for name in self._inputs})
        except Exception as error:  # its library raises many types
            raise self._failed(_line_of(error)) from error
        output = np.asarray(answer[0], np.float64).reshape(len(encoded), -1)
        if output.shape[1] not in {1, 2}:
            raise self._failed(f"it gives {output.shape[1]} numbers for a passage, not 1 or 2")
        return output[:, 0] if output.shape[1] == 1 else output[:, 1] - output[:, 0]

    def _failed(self, reason: str) -> RerankerError:
        return RerankerError(
            f"The cross-encoder in {str(self._folder)!r} cannot be used: {reason}.",
            allowed=f"It needs {_MODEL} and {_TOKENIZER}; the order of the search stays.",
            hint="Correct folder under documents.reranker_options.",
        )


def _line_of(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(". ")
