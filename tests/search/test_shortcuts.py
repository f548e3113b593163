"""What is computed in a quicker way is the same as in the plain one."""

import numpy as np

from toolgate.search import SearchableTool
from toolgate.search.lexical.postings import FIELDS, Patterns, read_counts, slots_of, terms_of
from toolgate.search.semantic.tool_vectors import ToolVectors, singles
from toolgate.search.semantic.vector_cache import _noted
from toolgate.search.tokenizer import _analyse, terms


def test_halves_become_the_singles_that_numpy_makes_of_them() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].reshape(2, -1)
    assert np.array_equal(
        singles(finite).view(np.uint32), finite.astype(np.float32).view(np.uint32)
    )


def test_rows_of_single_precision_stay_as_they_are() -> None:
    rows = np.ones((2, 3), np.float32)
    assert singles(rows) is rows


def test_words_are_counted_by_tool_and_field() -> None:
    patterns = Patterns()
    tools = [[[3, 1, 3], [], [], [3], [], []], [[], [], [], [], [], []], [[1], [], [], [], [], [1]]]
    read = read_counts(iter(tools), patterns, 10, 3)
    found = {
        (term, place): patterns.table()[int(key) & 0xFFFF].tolist()
        for term, place, key in zip(
            terms_of(read.keys).tolist(), slots_of(read.keys).tolist(), read.keys, strict=True
        )
    }
    assert found == {
        (1, 10): [1, 0, 0, 0, 0, 0],
        (3, 10): [2, 0, 0, 1, 0, 0],
        (1, 12): [1, 0, 0, 0, 0, 1],
    }
    assert read.lengths.T.tolist() == [[3, 0, 0, 1, 0, 0], [0] * FIELDS, [1, 0, 0, 0, 0, 1]]


def test_a_word_repeated_thousands_of_times_keeps_to_its_field() -> None:
    patterns = Patterns()
    read = read_counts([[[], [], [], [7] * 5_000, [7], []]], patterns, 0, 1)
    counts = patterns.table()[int(read.keys[0]) & 0xFFFF].tolist()
    assert counts == [0, 0, 0, 1023, 1, 0]
    assert read.lengths[3, 0] == 5_000


def test_no_tools_have_no_counts() -> None:
    read = read_counts([], Patterns(), 0, 0)
    assert len(read.keys) == 0
    assert read.lengths.shape == (FIELDS, 0)


def test_plain_words_are_read_as_all_others_are() -> None:
    for word in ("createIssue_v2", "HTTPServer", "issues", "base64", "a-b_c", "ABc", "x" * 90):
        assert terms(word) == tuple(dict.fromkeys(_analyse(word[:64])))


def test_a_look_at_what_changed_sees_what_a_look_at_all_sees() -> None:
    tools = [_tool(f"s{number % 4}", f"t{number}") for number in range(12)]
    first = _noted(None, _vectors(tools, 12), None)
    assert first.fresh is None
    tools += [_tool("s1", "new"), _tool("s9", "first")]
    live = np.array([place for place in range(14) if place % 4 != 2 and place != 5], np.int32)
    quick = _noted(first, _vectors(tools, 14), live)
    assert quick.fresh == {"s1", "s2", "s9"}
    whole = _noted(None, _vectors(tools, 14), live)
    assert quick.owned == whole.owned
    assert "s2" not in quick.owned
    again = _noted(quick, _vectors(tools, 14), live)
    assert again.fresh == frozenset()
    back = _noted(quick, _vectors(tools, 14), None)
    assert back.fresh is None


def _tool(server: str, name: str) -> SearchableTool:
    return SearchableTool(key=f"{server}:{name}", server=server, name=name)


def _vectors(tools: list[SearchableTool], size: int) -> ToolVectors:
    return ToolVectors(
        np.zeros((size, 2), np.float32),
        np.ones(size, np.bool_),
        np.arange(size, dtype=np.int32),
        tools,
    )
