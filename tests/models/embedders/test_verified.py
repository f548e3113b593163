"""No vector is used before its embedder has passed a test."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.models.embedders.tiny import make_folder
from tests.search.hashing import DIM, HashingEmbedder
from toolgate.base import plugins
from toolgate.errors import EmbedderError
from toolgate.models.embedders import Embedder, TextKind, Vectors, VerifiedEmbedder
from toolgate.models.embedders import bundled as bundled_module
from toolgate.models.embedders._vector_table import read_table
from toolgate.models.embedders._verified import NEAR
from toolgate.models.embedders.bundled import MODEL, RECORD, BundledEmbedder
from toolgate.models.embedders.bundled import Options as BundledOptions
from toolgate.models.embedders.bundled import build as bundled
from toolgate.models.embedders.onnx import Options as OnnxOptions
from toolgate.models.embedders.onnx import build as onnx
from toolgate.testing.contracts.embedder import EmbedderContract
from toolgate.types import PluginSpec


class TestTheContractHoldsBehindTheTest(EmbedderContract):
    """The wrapper changes nothing."""

    @pytest.fixture
    def make_embedder(self) -> Callable[[], Embedder]:
        return lambda: VerifiedEmbedder(bundled(BundledOptions()))


class Wrong(HashingEmbedder):
    """Gives vectors of another model, in one way."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        rows = await super().embed(texts, kind)
        match self.way:
            case "same":
                rows[:] = rows[0]
            case "noise":
                rows = np.random.default_rng(0).standard_normal(rows.shape).astype(np.float32)
                rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            case "long":
                rows *= 3
            case "zero":
                rows[:] = 0
            case "dimension":
                rows = rows[:, 1:]
            case "nan":
                rows[0, 0] = np.nan
        return rows


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("same", "two sentences that mean the same have cosine 1.00, and 1.00 with one"),
        ("noise", "two sentences that mean the same have cosine"),
        ("long", "a vector has length 3, not 1"),
        ("zero", "a vector has length 0, not 1"),
        ("dimension", f"gave shape (3, {DIM - 1}) instead of (3, {DIM})"),
        ("nan", "gave numbers that are not finite"),
    ],
)
async def test_vectors_that_cannot_be_right_are_refused(way: str, said: str) -> None:
    embedder = VerifiedEmbedder(Wrong(way))

    with pytest.raises(EmbedderError) as caught:
        await embedder.embed(["weather"], "query")

    assert said in str(caught.value)
    assert str(caught.value).endswith("then run: toolgate embedder test")


async def test_an_embedder_is_tested_once_and_again_after_it_failed() -> None:
    inner = Wrong("long")
    embedder = VerifiedEmbedder(inner)
    with pytest.raises(EmbedderError):
        await embedder.embed(["weather"], "query")
    inner.way = ""

    for _ in range(3):
        await embedder.embed(["weather"], "query")

    assert len(inner.documents) == 6
    assert inner.queries == ["weather"] * 3


async def test_the_bundled_model_and_an_onnx_one_pass(tmp_path: Path) -> None:
    for embedder in (
        bundled(BundledOptions()),
        onnx(OnnxOptions(folder=str(make_folder(tmp_path / "model")))),
    ):
        assert (await VerifiedEmbedder(embedder).embed(["weather"], "query")).any()


def test_the_record_is_that_of_the_bundled_model() -> None:
    """`make model` writes both."""
    table = read_table(MODEL)
    cosine = float(table.vector(NEAR[0]) @ table.vector(NEAR[1]))

    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record == {"name": table.name, "cosine": pytest.approx(cosine, abs=1e-4)}


async def test_a_bundled_model_that_gives_other_vectors_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same name, other numbers: a whole file that was changed, or code that reads it otherwise."""
    with np.load(MODEL) as parts:
        changed = dict(parts.items())
    changed["scale"] = changed["scale"][::-1].copy()
    np.savez(tmp_path / "model.npz", **changed)  # pyright: ignore[reportArgumentType]

    with pytest.raises(EmbedderError, match=r"two sentences have cosine .* instead of 0"):
        await BundledEmbedder(tmp_path / "model.npz").embed(["weather"], "query")

    monkeypatch.setattr(bundled_module, "RECORD", tmp_path / "nowhere.json")
    (tmp_path / "copy.npz").write_bytes(MODEL.read_bytes())
    with pytest.raises(EmbedderError, match=r"its record 'nowhere\.json' cannot be read"):
        await BundledEmbedder(tmp_path / "copy.npz").embed(["weather"], "query")


def test_settings_build_an_embedder_whose_files_are_not_there(tmp_path: Path) -> None:
    """The gateway starts, and search goes on with words. `isinstance` would read the properties of
    a protocol, and with them the files."""
    spec = PluginSpec(name="onnx", options={"folder": str(tmp_path)}, setting="search.embedder")

    made = plugins.make("embedder", Embedder, spec, {})

    with pytest.raises(EmbedderError):
        _ = made.dim
