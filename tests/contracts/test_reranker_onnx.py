"""The reranker `onnx` keeps the contract, with a cross-encoder that counts common words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from toolgate.errors import OptionError, RerankerError
from toolgate.models.rerankers import CandidatePassage, Reranker
from toolgate.models.rerankers.onnx import Options, build
from toolgate.testing.contracts.reranker import PASSAGES, QUESTION, RerankerContract

WORDS = ("[PAD]", "[UNK]", "[SEP]", "days", "of", "paid", "leave", "canteen", "printers")


def make_folder(folder: Path, *, outputs: int = 1) -> Path:
    """A folder with `model.onnx` and `tokenizer.json`.

    Args:
        folder: Where; it is made.
        outputs: Numbers that the model gives for a passage.
    """
    folder.mkdir()
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="$A", pair="$A:0 [SEP]:0 $B:1", special_tokens=[("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    onnx.save(_model(outputs), str(folder / "model.onnx"))
    return folder


def _model(outputs: int) -> onnx.ModelProto:
    node = helper.make_node
    nodes = [
        node("Unsqueeze", ["input_ids", "last"], ["rows"]),
        node("Unsqueeze", ["input_ids", "middle"], ["columns"]),
        node("Equal", ["rows", "columns"], ["same"]),
        node("Cast", ["same"], ["equal"], to=TensorProto.FLOAT),
        node("Greater", ["input_ids", "special"], ["is_word"]),
        node("Cast", ["is_word"], ["word"], to=TensorProto.FLOAT),
        node("Cast", ["token_type_ids"], ["passage"], to=TensorProto.FLOAT),
        node("Sub", ["one", "passage"], ["question"]),
        node("Mul", ["question", "word"], ["asked"]),
        node("Unsqueeze", ["asked", "last"], ["asked_rows"]),
        node("Unsqueeze", ["passage", "middle"], ["passage_columns"]),
        node("Mul", ["equal", "asked_rows"], ["common"]),
        node("Mul", ["common", "passage_columns"], ["counted"]),
        node("ReduceSum", ["counted", "axes"], ["sums"], keepdims=0),
        node("Unsqueeze", ["sums", "middle"], ["column"]),
        node("Mul", ["column", "weights"], ["logits"]),
    ]
    names = ("input_ids", "attention_mask", "token_type_ids")
    shape = ["texts", "tokens"]
    numbers = {
        "last": np.array([2], np.int64),
        "middle": np.array([1], np.int64),
        "axes": np.array([1, 2], np.int64),
        "special": np.array(2, np.int64),
        "one": np.array(1, np.float32),
        "weights": np.arange(outputs, dtype=np.float32)[None] + (outputs == 1),
    }
    graph = helper.make_graph(
        nodes,
        "common-words",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in names],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["texts", outputs])],
        [numpy_helper.from_array(value, name) for name, value in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("model") / "cross-encoder")


class TestOnnx(RerankerContract):
    """All duties of a reranker."""

    @pytest.fixture
    def make_reranker(self, folder: Path) -> Callable[[], Reranker]:
        return lambda: build(Options(folder=str(folder), batch=2))


async def test_question_and_passage_are_read_together(folder: Path) -> None:
    scores = await build(Options(folder=str(folder))).scores(QUESTION, PASSAGES)
    assert list(scores) == [0, 4, 0]


async def test_of_two_numbers_the_second_says_yes(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "two", outputs=2)
    scores = await build(Options(folder=str(folder))).scores(QUESTION, PASSAGES)
    assert list(scores) == [0, 4, 0]


async def test_a_model_that_classifies_into_three_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "three", outputs=3)
    with pytest.raises(RerankerError, match="3 numbers"):
        await build(Options(folder=str(folder))).scores(QUESTION, PASSAGES)


async def test_a_long_passage_is_cut_and_the_question_stays(folder: Path) -> None:
    long = CandidatePassage(text="canteen " * 5_000)
    reranker = build(Options(folder=str(folder), max_length=16))
    assert list(await reranker.scores("canteen", [long])) == [14]


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
async def test_a_damaged_file_is_named(folder: Path, tmp_path: Path, name: str) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[: 50 if file.name == name else None])
    with pytest.raises(RerankerError, match="cannot be used"):
        await build(Options(folder=str(tmp_path))).scores(QUESTION, PASSAGES)
    (tmp_path / name).unlink()
    with pytest.raises(RerankerError, match=f"{name} is missing"):
        await build(Options(folder=str(tmp_path))).scores(QUESTION, PASSAGES)


def test_options_are_checked() -> None:
    wrong: list[dict[str, Any]] = [
        {"folder": " "},
        {"folder": "x", "batch": 0},
        {"folder": "x", "threads": 65},
    ]
    for options in wrong:
        with pytest.raises(OptionError):
            Options(**options)
