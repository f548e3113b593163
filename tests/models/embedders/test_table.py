"""The table of the package gives a text the same vector however it is asked for it."""

from pathlib import Path

import numpy as np
import pytest

from toolgate.models.embedders import _vector_table, computes_at_once
from toolgate.models.embedders._vector_table import VectorTable, read_table
from toolgate.models.embedders.bundled import MODEL, BundledEmbedder

TEXTS = [
    "",
    "?!",
    "weather",
    "Create an issue in the repository of my team",
    "list_files readFile HTTPServer",
    "天气 forecast für morgen",
    *(f"convert {number} dollars to euros and send the result" for number in range(40)),
]


@pytest.fixture(scope="module")
def table() -> VectorTable:
    return read_table(MODEL)


def test_a_text_has_the_same_vector_alone_and_among_many(table: VectorTable) -> None:
    together = table.vectors(TEXTS)

    for text, row in zip(TEXTS, together, strict=True):
        assert (table.vector(text) == row).all()
        assert (table.vector(text) == row).all()  # and again, from what is remembered


def test_rows_that_were_forgotten_are_read_again(
    table: VectorTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_vector_table, "_REMEMBERED", 5)
    fresh = read_table(MODEL)

    for text in TEXTS * 2:
        assert (fresh.vector(text) == table.vector(text)).all()


def test_every_pair_of_the_table_is_found(table: VectorTable) -> None:
    with np.load(MODEL) as parts:
        pairs, n_pieces = parts["pairs"], len(parts["vocabulary"].tobytes().split(b"\n"))

    for place in range(0, len(pairs), 997):
        both = [
            int(pairs[place]) // _vector_table.PAIR_STEP,
            int(pairs[place]) % _vector_table.PAIR_STEP,
        ]
        assert table._rows(both) == [*both, n_pieces + place]


def test_few_short_texts_are_computed_at_once_when_the_table_is_read() -> None:
    embedder = BundledEmbedder()

    assert embedder.dim
    assert computes_at_once(embedder, ["weather"])
    assert not computes_at_once(embedder, ["weather"] * 33)
    assert not computes_at_once(embedder, ["weather " * 1_000])


def test_a_table_that_is_not_read_yet_computes_nothing_at_once(tmp_path: Path) -> None:
    assert not computes_at_once(BundledEmbedder(tmp_path / "model.npz"), ["weather"])
