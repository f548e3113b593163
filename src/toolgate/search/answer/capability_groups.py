"""Capability groups: named groups of servers and tools with one purpose.

Settings can name groups. The remaining servers are grouped by the meaning and the words of their
tools; such a group is named by the two words that distinguish it best. The same catalog always
gives the same groups.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from toolgate.search.base import SearchableTool
from toolgate.search.tokenizer import IGNORED, fold, split_identifier, terms, words

_LEAST_SERVERS = 4
"""Fewest servers for which groups are derived; chosen."""

_MOST_GROUPS = 64
"""Most derived groups: more would be no overview; chosen."""
_WORD_DIM = 256
"""Dimensions of a server's word vector, into which words are hashed; chosen."""
_WORD_WEIGHT = 0.5
"""Weight of words against meaning, as the length of the word vector; chosen."""

_TURNS = 25
"""Most rounds of k-means, which stops earlier once nothing moves; chosen."""
_NAME_WORD = re.compile(r"[a-z][a-z0-9]{2,19}")
_SAYS_NOTHING = IGNORED | frozenset(
    """
    mcp server servers tool tools api client data default true false name value id list set run
    args returns return specific information description contents content text current based
    provided given retrieve fetch filtering details optional required parameters only
    add close copy create delete disable download enable execute export extract find generate import
    move open query read remove search select send start stop update upload write
    """.split()  # noqa: SIM905 - quoted words are harder to read
)


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The groups of one state of a catalog."""

    keys: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Tool keys by name of the group; groups named in the settings come first."""

    derived: frozenset[str] = frozenset()
    """Names of the groups derived from vectors and words."""

    centres: Mapping[str, NDArray[np.float32]] = field(
        default_factory=dict[str, NDArray[np.float32]], repr=False
    )
    """Centroid of each group's vectors, of length 1; empty without vectors."""

    def find(self, name: str) -> frozenset[str] | None:
        """Return the tools of a group; the name is case-insensitive. None if it does not exist."""
        folded = fold(name.strip())
        return next((keys for group, keys in self.keys.items() if fold(group) == folded), None)

    def nearest(self, vector: NDArray[np.float32], limit: int) -> list[str]:
        """Return the names of the groups nearest to a request, the nearest first."""
        if not self.centres:
            return []
        names = list(self.centres)
        # Rounded, so that ties stay ties: the last digits of sums differ between processors.
        scores = np.round(np.stack([self.centres[name] for name in names]) @ vector, 5)
        return [names[at] for at in np.argsort(-scores, kind="stable")[:limit].tolist()]


def grouped(
    tools: Sequence[SearchableTool],
    rows: NDArray[np.float32] | None = None,
    named: Mapping[str, Sequence[str]] | None = None,
    *,
    derive: bool = True,
) -> Groups:
    """Return the groups of a catalog.

    Args:
        tools: The catalog.
        rows: Vectors of the tools, in the same order; None groups by words alone.
        named: Servers and patterns of tool keys by name of a group, from the settings.
        derive: Whether to group the servers that are in none of the named groups.
    """
    if not derive and not named:
        return Groups()
    groups: dict[str, set[str]] = {}
    taken: set[str] = set()
    for name, patterns in (named or {}).items():
        keys = {tool.key for tool in tools if any(_matches(tool, pattern) for pattern in patterns)}
        groups[name] = keys
        taken |= keys
    # If a named group has some tools of a server, its other tools are not grouped automatically.
    named_servers = {tool.server for tool in tools if tool.key in taken}
    positions: dict[str, list[int]] = {}
    for at, tool in enumerate(tools):
        if tool.server not in named_servers:
            positions.setdefault(tool.server, []).append(at)
    derived: frozenset[str] = frozenset()
    if derive and len(positions) >= _LEAST_SERVERS:
        servers = sorted(positions)
        documents = [_words_of(tools[at] for at in positions[server]) for server in servers]
        number = _clusters(_vectors(servers, positions, documents, rows))
        of_group: dict[int, list[int]] = {}
        for at, group in enumerate(number):
            of_group.setdefault(group, []).append(at)
        in_names = [_words_of_names(tools[at] for at in positions[server]) for server in servers]
        members = [of_group[group] for group in sorted(of_group)]
        names = _names(documents, in_names, members, set(groups))
        for name, group in zip(names, sorted(of_group), strict=True):
            groups[name] = {
                tools[position].key for at in of_group[group] for position in positions[servers[at]]
            }
        derived = frozenset(names)
    keys = {name: frozenset(members) for name, members in groups.items()}
    return Groups(keys=keys, derived=derived, centres=_centres(tools, rows, keys))


def _matches(tool: SearchableTool, pattern: str) -> bool:
    if ":" not in pattern:
        return fnmatchcase(fold(tool.server), fold(pattern))
    return fnmatchcase(fold(tool.key), fold(pattern))


def _centres(
    tools: Sequence[SearchableTool],
    rows: NDArray[np.float32] | None,
    keys: Mapping[str, frozenset[str]],
) -> dict[str, NDArray[np.float32]]:
    if rows is None or not len(rows):
        return {}
    position = {tool.key: at for at, tool in enumerate(tools)}
    return {
        name: _unit(rows[sorted(position[key] for key in members)].mean(axis=0))
        for name, members in keys.items()
        if members
    }


def _vectors(
    servers: Sequence[str],
    positions: Mapping[str, Sequence[int]],
    documents: Sequence[Counter[str]],
    rows: NDArray[np.float32] | None,
) -> NDArray[np.float32]:
    """Return one vector per server: the mean of its tools' vectors, then its words."""
    # Number of servers that have each term: the document frequency of tf-idf.
    spread = Counter(term for document in documents for term in document)
    by_words = np.zeros((len(servers), _WORD_DIM), np.float32)
    for at, document in enumerate(documents):
        for term, count in document.items():
            code = zlib.crc32(term.encode(errors="surrogatepass"))
            # Hashed features with signs (Weinberger et al. 2009, https://arxiv.org/abs/0902.2206):
            # words that share a column cancel out on average. Weighted by tf-idf.
            rare = math.log(1 + len(servers) / spread[term])
            by_words[at, code % _WORD_DIM] += (
                (1 if code & 0x10000 else -1) * math.sqrt(count) * rare
            )
    by_words = _unit_rows(by_words)
    if rows is None or not len(rows):
        return by_words
    meant = np.stack([rows[list(positions[server])].mean(axis=0) for server in servers])
    meant = _unit_rows(meant - meant.mean(axis=0))  # what all share tells none from the others
    return _unit_rows(np.hstack([meant, np.float32(_WORD_WEIGHT) * by_words]))


def _clusters(rows: NDArray[np.float32]) -> list[int]:
    """Return the cluster of each row: spherical k-means with farthest-first seeds."""
    # About the square root of the number of servers, so that few groups have one server.
    k = max(2, min(_MOST_GROUPS, round(1.3 * math.sqrt(len(rows)))))
    # Farthest-first seeds: the most central row, then always the row least similar to all seeds so
    # far. There is no random start, so the same catalog gives the same groups.
    central: NDArray[np.float32] = rows @ rows.mean(axis=0)
    seeds = [int(np.argmax(np.round(central, 5)))]
    nearest: NDArray[np.float32] = rows @ rows[seeds[0]]
    while len(seeds) < min(k, len(rows)):
        seeds.append(int(np.argmin(np.round(nearest, 5))))
        nearest = np.maximum(nearest, rows @ rows[seeds[-1]])
    centres = rows[seeds]
    number = np.zeros(len(rows), np.int64)
    for turn in range(_TURNS):
        fresh = np.argmax(np.round(rows @ centres.T, 5), axis=1)
        if turn and (fresh == number).all():
            break
        number = fresh
        # A cluster that lost all its rows keeps its centroid: the mean of no rows is undefined.
        centres = np.stack(
            [
                _unit(rows[number == cluster].mean(axis=0))
                if (number == cluster).any()
                else centres[cluster]
                for cluster in range(len(centres))
            ]
        )
    return [int(cluster) for cluster in number]


def _words_of(tools: Iterable[SearchableTool]) -> Counter[str]:
    """Count the tools of a server that have each word; its name counts for several."""
    counts: Counter[str] = Counter()
    server = ""
    for tool in tools:
        server = tool.server
        text = f"{' '.join(split_identifier(tool.name))} {tool.description[:400]}"
        counts.update({fold(word) for word in words(text)})
    return _with_server(counts, server)


def _words_of_names(tools: Iterable[SearchableTool]) -> Counter[str]:
    """Do the same for the words in the tools' names alone."""
    counts: Counter[str] = Counter()
    server = ""
    for tool in tools:
        server = tool.server
        counts.update(set(map(fold, split_identifier(tool.name))))
    return _with_server(counts, server)


def _with_server(counts: Counter[str], server: str) -> Counter[str]:
    # The server's name counts like three tools with that word; chosen.
    for part in split_identifier(server):
        counts[fold(part)] += 3
    return Counter({word: n for word, n in counts.items() if _NAME_WORD.fullmatch(word)})


def _names(
    documents: Sequence[Counter[str]],
    in_names: Sequence[Counter[str]],
    groups: Sequence[Sequence[int]],
    taken: set[str],
) -> list[str]:
    """Name each group by two words that most of its servers have and few others.

    They are words of tool names (`in_names`), since a description has many that say little.
    """
    spread = Counter(word for document in documents for word in document)
    names: list[str] = []
    for members in groups:
        inside = Counter(word for at in members for word in documents[at])
        named = Counter[str]()
        for at in members:
            named.update(in_names[at].keys())
        # A square root, so that one server with many tools does not dominate.
        weight = Counter[str]()
        for at in members:
            weight.update({word: math.sqrt(n) for word, n in documents[at].items()})  # pyright: ignore[reportArgumentType]

        def worth(
            word: str,
            *,
            inside: Counter[str] = inside,
            named: Counter[str] = named,
            weight: Counter[str] = weight,
            size: int = len(members),
        ) -> float:
            # Share of the members that have the word, above all in names, how often they use it,
            # and how rare it is elsewhere.
            share = inside[word] / size * (1 + named[word] / size)
            return share * weight[word] * math.log(1 + len(documents) / spread[word])

        telling = sorted(
            (word for word in inside if word in named and word not in _SAYS_NOTHING),
            key=lambda word: (-round(worth(word), 6), word),
        )
        chosen: list[str] = []
        stems: set[str] = set()
        for word in telling:
            # Two forms of one word would be redundant.
            if stems.isdisjoint(terms(word)):
                chosen.append(word)
                stems.update(terms(word))
            if len(chosen) == 4:
                break
        # More words before a number: a third word tells a reader more than a 2.
        name = next(
            (
                name
                for size in (2, 3, 4)
                if (name := "-".join(chosen[:size]) or "other") not in taken
            ),
            f"{'-'.join(chosen[:2]) or 'other'}-{len(names) + 1}",
        )
        taken.add(name)
        names.append(name)
    return names


def _unit(row: NDArray[np.float32]) -> NDArray[np.float32]:
    length = float(np.linalg.norm(row))
    return (row / length if length else row).astype(np.float32)


def _unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
