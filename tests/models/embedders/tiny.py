"""Small models for the embedder `onnx`, made here: real files, real library, no torch.

Each is the table of the bundled model in another form: a vector per piece of a word, of which the
embedder takes the mean.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from toolgate.models.embedders.bundled import MODEL

PIECES = 5_000
"""Of the bundled table; the frequent ones come first."""

DIM = 256


def make_folder(
    folder: Path,
    *,
    metadata: Mapping[str, str] | None = None,
    sentence: bool = False,
    mixes: bool = False,
) -> Path:
    """A folder with `model.onnx` and `tokenizer.json`.

    Args:
        folder: Where; it is made.
        metadata: Kept in the file of the model.
        sentence: The model gives one vector for each text itself.
        mixes: The numbers of a text depend on the longest text of its batch, as in int8 models.
    """
    folder.mkdir(parents=True)
    with np.load(MODEL) as parts:
        pieces = parts["vocabulary"].tobytes().decode().split("\n")[:PIECES]
        codes, scale = parts["codes"][:PIECES], parts["scale"][:PIECES].astype(np.float32)
    rows = np.concatenate([codes & 15, codes >> 4], 1).astype(np.float32) - 8
    rows *= scale[:, None]
    tokenizer = Tokenizer(
        WordPiece({piece: at for at, piece in enumerate(pieces)}, unk_token=pieces[0])
    )
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    onnx.save(_model(rows, metadata or {}, sentence, mixes), str(folder / "model.onnx"))
    return folder


def _model(
    rows: np.ndarray, metadata: Mapping[str, str], sentence: bool, mixes: bool
) -> onnx.ModelProto:
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["gathered"])]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "pieces"])]
    last, shape = "gathered", ["texts", "pieces", DIM]
    if mixes:
        nodes += [
            helper.make_node("Shape", ["input_ids"], ["shape"]),
            helper.make_node("Gather", ["shape", "second"], ["longest"]),
            helper.make_node("Cast", ["longest"], ["length"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["length", "step"], ["more"]),
            helper.make_node("Add", [last, "more"], ["mixed"]),
        ]
        last = "mixed"
    if sentence:
        nodes.append(helper.make_node("ReduceMean", [last, "second"], ["mean"], keepdims=0))
        last, shape = "mean", ["texts", DIM]
    nodes.append(helper.make_node("Identity", [last], ["last_hidden_state"]))
    graph = helper.make_graph(
        nodes,
        "tiny",
        inputs,
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(rows, "table"),
            numpy_helper.from_array(np.array([1], np.int64), "second"),
            numpy_helper.from_array(np.array([0.01], np.float32), "step"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    helper.set_model_props(model, dict(metadata))
    return model
