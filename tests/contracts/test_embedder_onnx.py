"""The embedder `onnx` keeps the contract, and what it promises beyond it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from tests.models.embedders.tiny import DIM, make_folder
from toolgate.base import plugins
from toolgate.errors import EmbedderError, OptionError
from toolgate.models.embedders import Embedder
from toolgate.models.embedders.onnx import Options, build
from toolgate.testing.contracts.embedder import EmbedderContract
from toolgate.types import PluginSpec

TEXTS = ("Open a new issue.", "What will the weather be in Tokyo tomorrow?", "Send mail.")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("onnx") / "tiny")


class TestOnnx(EmbedderContract):
    """All duties of an embedder."""

    @pytest.fixture
    def make_embedder(self, folder: Path) -> Callable[[], Embedder]:
        return lambda: build(Options(folder=str(folder)))


async def vectors_of(folder: Path, *texts: str, kind: Any = "document", **options: Any) -> Any:
    return await build(Options(folder=str(folder), **options)).embed(texts, kind)


def test_the_settings_build_it_by_name(folder: Path) -> None:
    spec = PluginSpec(
        name="onnx",
        options={"folder": str(folder), "pooling": "cls", "max_length": 64},
        setting="search.embedder",
    )
    embedder = plugins.make("embedder", Embedder, spec, {})

    assert embedder.dim == DIM
    assert embedder.identity.startswith("onnx/tiny/256/")


def test_a_large_vocabulary_is_one_of_many_languages(folder: Path, tmp_path: Path) -> None:
    large = tmp_path / "large"
    shutil.copytree(folder, large)
    tokenizer = json.loads((large / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary |= {f"piece{number}": number for number in range(len(vocabulary), 110_000)}
    (large / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")

    assert build(Options(folder=str(folder))).reads == "english"
    assert build(Options(folder=str(large))).reads == "many"
    assert build(Options(folder=str(large), reads="english")).reads == "english"
    assert build(Options(folder=str(tmp_path / "none"))).reads == "english"


async def test_the_first_token_may_stand_for_the_text(folder: Path) -> None:
    """As models of the kind of bge-small want it."""
    first, word, mean = [
        (await vectors_of(folder, text, pooling=pooling))[0]
        for text, pooling in (("weather in tokyo", "cls"), ("weather", "mean"), (TEXTS[1], "mean"))
    ]

    assert np.allclose(first, word, atol=1e-6)
    assert not np.allclose(first, mean, atol=1e-2)


async def test_each_kind_of_text_gets_its_prefix(folder: Path) -> None:
    options = {"query_prefix": "query: ", "document_prefix": "passage: "}
    plain = await vectors_of(folder, "query: weather", "passage: weather")
    query = await vectors_of(folder, "weather", kind="query", **options)
    document = await vectors_of(folder, "weather", **options)

    assert np.allclose(np.concatenate([query, document]), plain, atol=1e-6)


async def test_the_file_says_what_the_model_wants_and_options_go_before_it(tmp_path: Path) -> None:
    metadata = {
        "toolgate.pooling": "cls",
        "toolgate.query_prefix": "weather ",
        "toolgate.max_length": "8",
    }
    told = make_folder(tmp_path / "told", metadata=metadata)
    plain = make_folder(tmp_path / "plain")

    wanted = await vectors_of(plain, "weather", "tokyo")
    by_file = await vectors_of(told, "tokyo", kind="query")
    by_option = await vectors_of(told, "tokyo", kind="query", query_prefix="", pooling="mean")

    assert np.allclose([by_file[0], by_option[0]], wanted, atol=1e-6)


async def test_what_is_too_long_is_cut(folder: Path) -> None:
    cut, short = await vectors_of(folder, "weather " * 5_000, "weather " * 8, max_length=8)

    assert np.allclose(cut, short, atol=1e-6)


async def test_a_model_may_give_one_vector_for_each_text(tmp_path: Path, folder: Path) -> None:
    sentence = make_folder(tmp_path / "sentence", sentence=True)

    wanted = await vectors_of(folder, *TEXTS)

    assert np.allclose(await vectors_of(sentence, *TEXTS, batch=1), wanted, atol=1e-5)


async def test_a_model_that_mixes_the_texts_of_a_batch_gets_one_at_a_time(tmp_path: Path) -> None:
    """Int8 models do: one scale for all activations. In a batch, the cosine of a text with itself
    was 0.97 for all-MiniLM-L6-v2."""
    mixing = make_folder(tmp_path / "mixing", mixes=True)
    texts = [*TEXTS, "a", "Read a file. " * 40]

    together = await vectors_of(mixing, *texts)
    alone = np.concatenate([await vectors_of(mixing, text) for text in texts])

    assert np.array_equal(together, alone)


async def test_vectors_have_length_one_unless_told_otherwise(folder: Path) -> None:
    plain = await vectors_of(folder, *TEXTS, normalize=False)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)

    assert np.abs(lengths - 1).min() > 0.01
    assert np.allclose(plain / lengths, await vectors_of(folder, *TEXTS), atol=1e-6)


def test_the_identity_names_all_that_changes_the_vectors(tmp_path: Path, folder: Path) -> None:
    other = make_folder(tmp_path / "tiny", mixes=True)
    options: list[dict[str, Any]] = [
        {},
        {"pooling": "cls"},
        {"query_prefix": "a"},
        {"document_prefix": "a"},
        {"max_length": 64},
        {"normalize": False},
        {"folder": str(other)},
    ]

    whole: list[dict[str, Any]] = [{"folder": str(folder)} | each for each in options]
    identities = {build(Options(**each)).identity for each in whole}

    assert len(identities) == len(options)


# Files that are not what they should be


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
async def test_a_missing_file_is_a_clear_error(tmp_path: Path, name: str) -> None:
    folder = make_folder(tmp_path / "model")
    (folder / name).unlink()

    with pytest.raises(EmbedderError) as caught:
        await vectors_of(folder, "weather")

    assert str(caught.value) == (
        f"The folder {str(folder)!r} of the embedder 'onnx' has no {name}. It needs model.onnx and "
        "tokenizer.json; search goes on with words alone. Correct folder under "
        "search.embedder_options, or run: toolgate embedder export"
    )


async def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="does not exist"):
        await vectors_of(tmp_path / "nowhere", "weather")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999], ids=lambda share: f"{share:.1%}")
@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
async def test_a_cut_off_file_is_a_clear_error(tmp_path: Path, name: str, share: float) -> None:
    folder = make_folder(tmp_path / "model")
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: int(share * len(whole))])

    with pytest.raises(EmbedderError, match=f"{name}.*cannot be read: .*cut off or damaged"):
        await vectors_of(folder, "weather")


async def test_a_file_is_read_again_after_an_error(tmp_path: Path) -> None:
    """Whoever repairs it need not start Toolgate again."""
    folder = tmp_path / "model"
    embedder = build(Options(folder=str(folder)))
    with pytest.raises(EmbedderError):
        await embedder.embed(["weather"], "query")
    make_folder(folder)

    assert (await embedder.embed(["weather"], "query")).any()


async def test_a_tokenizer_of_another_model_is_a_clear_error(tmp_path: Path) -> None:
    """It names pieces that the model lacks."""
    other = make_folder(tmp_path / "other")
    told = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    told["model"]["vocab"]["weather"] = 9_000_000
    (other / "tokenizer.json").write_text(json.dumps(told), encoding="utf-8")

    with pytest.raises(EmbedderError, match=r"cannot be used: .*out of (data )?bounds"):
        await vectors_of(other, "weather")


async def test_a_deadline_is_kept_while_it_computes(folder: Path) -> None:
    """A request has its words; it does not wait for a long computation."""
    embedder = build(Options(folder=str(folder)))
    await embedder.embed(TEXTS, "query")

    with anyio.move_on_after(0.01) as scope:
        await embedder.embed([f"{text} {n}" for n in range(5_000) for text in TEXTS], "document")

    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "options",
    [{"folder": " "}, {"max_length": 7}, {"batch": 0}, {"threads": 65}],
    ids=lambda options: next(iter(options)),
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"folder": "somewhere"} | options

    with pytest.raises(OptionError, match="Allowed"):
        Options(**whole)
