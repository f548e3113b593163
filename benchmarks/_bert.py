"""Builds a model as large as bge-small with random weights, to measure time but not answers.

Twelve layers of 384 dimensions, twelve heads, 1,536 hidden units: 33 million weights, as in
https://huggingface.co/BAAI/bge-small-en-v1.5, made of the operations that exporters write.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from toolgate.models.embedders.bundled import MODEL

LAYERS, WIDTH, HEADS, BETWEEN, PIECES, LONGEST = 12, 384, 12, 1_536, 30_522, 512


def bge_small_sized(folder: Path, layers: int = LAYERS) -> Path:
    """Create the folder with `model.onnx` and `tokenizer.json`."""
    folder.mkdir(parents=True)
    with np.load(MODEL) as parts:
        pieces = parts["vocabulary"].tobytes().decode().split("\n")[:PIECES]
    tokenizer = Tokenizer(
        WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token=pieces[0])
    )
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    onnx.save(_Graph().model(layers), str(folder / "model.onnx"))
    return folder


class _Graph:
    """Collects nodes and weights."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def model(self, layers: int) -> onnx.ModelProto:
        """The finished model."""
        whole = helper.make_tensor_value_info
        hidden = self._embedded()
        mask = self._mask()
        for _ in range(layers):
            hidden = self._layer(hidden, mask)
        self._node("Identity", hidden, output="last_hidden_state")
        graph = helper.make_graph(
            self._nodes,
            "bge-small-sized",
            [
                whole(name, TensorProto.INT64, ["texts", "pieces"])
                for name in ("input_ids", "attention_mask")
            ],
            [whole("last_hidden_state", TensorProto.FLOAT, ["texts", "pieces", WIDTH])],
            self._weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def _embedded(self) -> str:
        words = self._node("Gather", self._weight(PIECES, WIDTH), "input_ids")
        shape = self._node("Shape", "input_ids")
        count = self._node("Gather", shape, self._kept(np.array(1, np.int64)))
        zero, one = self._kept(np.array(0, np.int64)), self._kept(np.array(1, np.int64))
        places = self._node("Range", zero, count, one)
        return self._normed(
            self._node("Add", words, self._node("Gather", self._weight(LONGEST, WIDTH), places))
        )

    def _mask(self) -> str:
        axes = self._kept(np.array([1, 2], np.int64))
        there = self._node("Cast", self._node("Unsqueeze", "attention_mask", axes), to=1)
        missing = self._node("Sub", self._kept(np.array(1, np.float32)), there)
        return self._node("Mul", missing, self._kept(np.array(-1e4, np.float32)))

    def _layer(self, hidden: str, mask: str) -> str:
        query, key, value = (self._heads(self._dense(hidden, WIDTH, WIDTH)) for _ in range(3))
        scores = self._node("MatMul", query, self._node("Transpose", key, perm=[0, 1, 3, 2]))
        scale = self._kept(np.array((WIDTH / HEADS) ** -0.5, np.float32))
        shares = self._node("Softmax", self._node("Add", self._node("Mul", scores, scale), mask))
        mixed = self._node("Transpose", self._node("MatMul", shares, value), perm=[0, 2, 1, 3])
        flat = self._node("Reshape", mixed, self._kept(np.array([0, 0, WIDTH], np.int64)))
        hidden = self._normed(self._node("Add", hidden, self._dense(flat, WIDTH, WIDTH)))
        wide = self._dense(hidden, WIDTH, BETWEEN)
        half = self._node("Div", wide, self._kept(np.array(2**0.5, np.float32)))
        error = self._node("Add", self._node("Erf", half), self._kept(np.array(1, np.float32)))
        bent = self._node("Mul", self._node("Mul", wide, error), self._kept(np.float32(0.5)))
        return self._normed(self._node("Add", hidden, self._dense(bent, BETWEEN, WIDTH)))

    def _heads(self, rows: str) -> str:
        parts = self._kept(np.array([0, 0, HEADS, WIDTH // HEADS], np.int64))
        return self._node("Transpose", self._node("Reshape", rows, parts), perm=[0, 2, 1, 3])

    def _dense(self, rows: str, width: int, out: int) -> str:
        product = self._node("MatMul", rows, self._weight(width, out))
        return self._node("Add", product, self._weight(out))

    def _normed(self, rows: str) -> str:
        ones = self._kept(np.ones(WIDTH, np.float32))
        return self._node("LayerNormalization", rows, ones, self._weight(WIDTH), axis=-1)

    def _weight(self, *shape: int) -> str:
        return self._kept(self._random.normal(0, 0.02, shape).astype(np.float32))

    def _kept(self, values: "NDArray[Any] | np.generic") -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def _node(self, kind: str, *inputs: str, output: str = "", **more: Any) -> str:
        output = output or f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [output], **more))
        return output
