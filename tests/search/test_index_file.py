"""What is kept of an index saves reading, and never changes what is found."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from tests.search.hashing import HashingEmbedder
from toolgate.search import SearchableTool, SearchRequest, index_file
from toolgate.search.index_file import LexicalCache
from toolgate.search.lexical import index
from toolgate.search.lexical.index import build_state
from toolgate.search.lexical.query import coverage, parse_query
from toolgate.search.lexical.state import LexicalState
from toolgate.search.lexical.weights import WordWeights
from toolgate.search.strategies.hybrid import HybridSearch, Options, build

WEIGHTS = WordWeights()
TOPICS = ("mail", "file", "issue", "calendar", "weather", "Größe")


@dataclass
class Reads:
    """Which tools' texts were read."""

    keys: list[str] = field(default_factory=list[str])


class CountedTool(SearchableTool):
    """A tool that tells when its description is read."""

    __slots__ = ("_reads", "_text")

    def __init__(self, number: int, reads: Reads, *, about: str = "") -> None:
        topic, server = TOPICS[number % len(TOPICS)], f"s{number % 9}"
        values = {
            "key": f"{server}:{topic}_{number}",
            "server": server,
            "name": f"{topic}_{number}",
            "title": "",
            "parameters": (),
            "digest": f"{number} {about}",
            "_reads": reads,
            "_text": about or f"Reads the {topic} number{number} of a {TOPICS[number % 5]}.",
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What it does."""
        self._reads.keys.append(self.key)
        return self._text


def catalog(count: int, reads: Reads) -> list[SearchableTool]:
    return [CountedTool(number, reads) for number in range(count)]


@pytest.fixture(autouse=True)
def small_indexes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "_LEAST", 1)


async def kept(path: Path, tools: Sequence[SearchableTool]) -> LexicalState:
    state = build_state(LexicalState(), tuple(tools), WEIGHTS)
    words = LexicalCache(path, WEIGHTS)
    words.changed(state)
    await words.aclose()
    return state


def scored(state: LexicalState, text: str) -> dict[str, float]:
    scores = coverage(state, parse_query(state, text))
    slots = range(len(state.keys)) if state.slots is None else state.slots.tolist()
    return {key: float(scores[at]) for key, at in zip(state.keys, slots, strict=True)}


@pytest.mark.parametrize("segmented", [True, False])
async def test_a_start_reads_the_texts_of_new_tools_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segmented: bool
) -> None:
    if segmented:
        monkeypatch.setattr(index, "SEGMENTED_FROM", 0)
        monkeypatch.setattr(index, "_DRIFT_MOST", 1e9)
    reads = Reads()
    tools = catalog(60, reads)
    await kept(tmp_path / "store.db", tools)
    now = [*tools[:20], CountedTool(20, reads, about="Sends a letter."), *tools[22:]]
    now.append(CountedTool(70, reads))
    reads.keys.clear()

    found = await LexicalCache(tmp_path / "store.db", WEIGHTS).read(tuple(now))

    assert found is not None
    assert set(reads.keys) == {now[20].key, now[-1].key}
    assert found.words.keys == tuple(tool.key for tool in now)
    anew = build_state(LexicalState(), tuple(now), WEIGHTS)
    for text in ("read the mail", "letter", "Größe number27", "number21", "file 70"):
        wanted = scored(anew, text)
        assert scored(found.words, text) == pytest.approx(wanted, abs=0.02 if segmented else 1e-6)
    assert found.words.slots_named(now[30].key)[0][0] == 0
    assert not found.words.slots_named(tools[21].key)


async def test_a_whole_catalog_comes_back_as_it_was(tmp_path: Path) -> None:
    reads = Reads()
    tools = catalog(60, reads)
    before = await kept(tmp_path / "store.db", tools)
    reads.keys.clear()

    found = await LexicalCache(tmp_path / "store.db", WEIGHTS).read(tuple(tools))

    assert found is not None
    assert not reads.keys
    for text in ("read the mail", "Größe number27", "nothing of it"):
        assert scored(found.words, text) == scored(before, text)
    assert found.words.vocabulary == before.vocabulary
    changed = build_state(found.words, tuple(tools[1:]), WEIGHTS)
    assert scored(changed, "mail") == scored(build_state(before, tuple(tools[1:]), WEIGHTS), "mail")


@pytest.mark.parametrize("damage", ["cut", "bytes", "empty", "other rules", "other tools"])
async def test_a_file_that_is_of_no_use_is_as_if_it_were_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    reads = Reads()
    tools = catalog(60, reads)
    await kept(tmp_path / "store.db", tools)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    raw = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(raw[: len(raw) // 2])
        case "bytes":
            path.write_bytes(raw[: len(raw) // 2] + bytes(200) + raw[len(raw) // 2 + 200 :])
        case "empty":
            path.write_bytes(b"")
        case "other rules":
            monkeypatch.setattr(index_file, "_FORMAT", 0)
        case _:
            tools = [replace(tool, digest="other") for tool in map(_plain, tools)]

    assert await LexicalCache(tmp_path / "store.db", WEIGHTS).read(tuple(tools)) is None


def _plain(tool: SearchableTool) -> SearchableTool:
    return SearchableTool(key=tool.key, server=tool.server, name=tool.name, digest=tool.digest)


async def test_other_weights_have_another_file(tmp_path: Path) -> None:
    tools = tuple(catalog(60, Reads()))
    await kept(tmp_path / "store.db", tools)

    assert await LexicalCache(tmp_path / "store.db", replace(WEIGHTS, b=0.5)).read(tools) is None


async def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")

    state = await kept(tmp_path / "file" / "store.db", catalog(60, Reads()))

    assert len(state.keys) == 60


async def test_a_search_that_was_kept_answers_as_before(tmp_path: Path) -> None:
    """Vectors too: the hash of a tool's text is kept, so that it is not read to be hashed."""
    reads = Reads()
    tools = catalog(60, reads)
    first = searching(tmp_path)
    await first.update(tools)
    await first.ready()
    request = SearchRequest(queries=("read the calendar number21",))
    wanted = await first.search(request)
    digests = first._state.vectors
    await first.aclose()
    reads.keys.clear()
    again = searching(tmp_path)

    await again.update(tools)
    read = set(reads.keys)
    await again.ready()

    assert [hit.key for hit in (await again.search(request)).hits] == [
        hit.key for hit in wanted.hits
    ]
    vectors = again._state.vectors
    assert digests is not None
    assert vectors is not None
    assert np.array_equal(digests.digests, vectors.digests)
    assert not read or read == set(reads.keys), "only what has no vector is read"
    await again.aclose()
    await again.forget("s1")
    assert not list(tmp_path.iterdir())


async def test_texts_are_added_to_a_file_of_words_alone(tmp_path: Path) -> None:
    """A search by words writes no hashes of texts; one by meaning adds them for the next start."""
    reads = Reads()
    tools = catalog(60, reads)
    await kept(tmp_path / "store.db", tools)
    for _ in range(2):
        search = searching(tmp_path)
        await search.update(tools)
        await search.aclose()

    found = await LexicalCache(tmp_path / "store.db", WEIGHTS).read(tuple(tools))

    assert found is not None
    assert found.has_texts


def searching(folder: Path) -> HybridSearch:
    return build(
        Options(embedding_wait_s=0.0), embedder=HashingEmbedder(), index_file=folder / "store.db"
    )
