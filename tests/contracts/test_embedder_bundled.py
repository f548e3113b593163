"""The embedder `bundled` keeps the contract, and what it promises beyond it."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from toolgate.base import plugins
from toolgate.errors import EmbedderError
from toolgate.models.embedders import Embedder
from toolgate.models.embedders._subwords import WordPieces
from toolgate.models.embedders._vector_table import read_table
from toolgate.models.embedders.bundled import MODEL, BundledEmbedder, Options, build
from toolgate.testing.contracts.embedder import EmbedderContract
from toolgate.types import PluginSpec


class TestBundled(EmbedderContract):
    """All duties of an embedder."""

    @pytest.fixture
    def make_embedder(self) -> Callable[[], Embedder]:
        return lambda: build(Options())


async def cosine(one: str, other: str) -> float:
    vectors = await build(Options()).embed([one, other], "query")
    return float(vectors[0] @ vectors[1])


def test_the_settings_build_it_by_name() -> None:
    spec = PluginSpec(name="bundled", options={}, setting="search.embedder")
    embedder = plugins.make("embedder", Embedder, spec, {})

    assert embedder.identity.startswith("bundled-1/256/")


@pytest.mark.parametrize(
    ("asked", "right", "wrong"),
    [
        ("turn on the lamp in the kitchen", "switch a light on", "Convert a currency."),
        ("how much are 50 dollars in euros", "Convert a currency.", "Query a database table."),
        ("what will it rain tomorrow", "Weather forecast for a place.", "Merge a pull request."),
        ("send a mesage to my team", "Post a message to a channel.", "Read a file from disk."),
        ("getUserById", "fetch a user by id", "list all invoices"),
    ],
)
async def test_a_paraphrase_is_nearer_than_another_task(asked: str, right: str, wrong: str) -> None:
    """What words alone miss."""
    assert await cosine(asked, right) > await cosine(asked, wrong) + 0.1


async def test_identifiers_are_read_in_words() -> None:
    same = await build(Options()).embed(["createIssue", "create_issue", "create issue"], "query")

    assert np.allclose(same[0], same[1])
    assert np.allclose(same[0], same[2])


@pytest.mark.parametrize("text", ["查询天气", "погода завтра", "天気", "الطقس", "🚀", "", "\u200b"])
async def test_scripts_it_does_not_know_give_zeros(text: str) -> None:
    """Search by words decides then; noise would make it worse."""
    vectors = await build(Options()).embed([text], "query")

    assert not vectors.any()


async def test_a_foreign_word_beside_known_ones_changes_nothing() -> None:
    vectors = await build(Options()).embed(["weather 天气", "weather"], "query")

    assert np.allclose(vectors[0], vectors[1])


def test_the_file_is_small_enough_for_a_wheel() -> None:
    """Promise of the documentation: at most 12 MB."""
    assert MODEL.stat().st_size <= 12_000_000


def test_a_process_holds_half_of_the_file_at_most() -> None:
    """The vectors stay in the file: the memory of a gateway with 20 servers depends on it."""
    tracemalloc.start()
    try:
        table = read_table(MODEL)
        table.vectors(["read a file", "convert a time between timezones"])
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held_bytes < MODEL.stat().st_size / 2


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999], ids=lambda share: f"{share:.1%}")
async def test_a_cut_off_file_is_a_clear_error(tmp_path: Path, share: float) -> None:
    whole = MODEL.read_bytes()
    path = tmp_path / "model.npz"
    path.write_bytes(whole[: int(share * len(whole))])

    with pytest.raises(EmbedderError) as caught:
        await BundledEmbedder(path).embed(["weather"], "query")

    assert str(caught.value) == (
        "The embedding model 'model.npz' cannot be read: it is cut off or damaged. "
        "Search goes on with words alone. Install Toolgate again; this restores the file."
    )


async def test_a_damaged_file_is_a_clear_error(tmp_path: Path) -> None:
    """One byte in the middle of the vectors."""
    whole = bytearray(MODEL.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    path = tmp_path / "model.npz"
    path.write_bytes(whole)

    with pytest.raises(EmbedderError, match="cut off or damaged"):
        await BundledEmbedder(path).embed(["weather"], "query")


async def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="it is missing"):
        await BundledEmbedder(tmp_path / "model.npz").embed(["weather"], "query")


async def test_a_file_is_read_again_after_an_error(tmp_path: Path) -> None:
    """Whoever repairs the file need not start Toolgate again."""
    path = tmp_path / "model.npz"
    embedder = BundledEmbedder(path)
    with pytest.raises(EmbedderError):
        await embedder.embed(["weather"], "query")
    path.write_bytes(MODEL.read_bytes())

    assert (await embedder.embed(["weather"], "query")).any()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Open the issue", "open the issue"),
        ("createIssue", "create issue"),
        ("HTTPServer", "http server"),
        ("YouTube", "youtube"),
        ("create_issue-v2", "create issue - v2"),
        ("Café", "cafe"),
        ("unopened", "[UNK]"),
        ("openissue", "open ##issue"),
        ("天气open", "[UNK] open"),
        ("x" * 100, "[UNK]"),
    ],
)
def test_words_are_cut_into_pieces(text: str, pieces: str) -> None:
    known = [
        "[UNK]",
        *[
            "open",
            "the",
            "issue",
            "create",
            "http",
            "server",
            "youtube",
            "-",
            "v2",
            "cafe",
            "##issue",
        ],
    ]
    cut = WordPieces(known)

    assert " ".join(known[number] for number in cut(text)) == pieces


def test_a_text_has_256_pieces_at_most() -> None:
    cut = WordPieces(["[UNK]", "a"])

    assert len(cut("a " * 5_000)) == 256
