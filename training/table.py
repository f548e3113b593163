"""Learns the table: a vector for each word piece and for each frequent pair of neighbours.

1. The teacher's vectors are projected onto their first 256 principal directions, at length 1.
2. A piece starts as the teacher's vector for it alone, centred, at length 1, times the weight
   1e-3 / (1e-3 + its share of all pieces): rare words say more (SIF, Arora, Liang and Ma 2017). A
   pair starts at zero.
3. Each batch of texts is pulled to the teacher's vectors (1 - cosine), and its matrix of cosines to
   the teacher's (mean squared difference). Batches consist of runs of texts that the teacher finds
   similar, so that small differences are learned. In every second batch some texts have a typing
   error, while their target stays the same.
4. At the same time, requests are pulled to the text of the tool they need and away from other tools
   (symmetric cross entropy of cosines).

All randomness comes from one seed; results still differ in the last digits between processors and
numbers of threads.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from toolgate.models.embedders._subwords import WordPieces
from toolgate.models.embedders._vector_table import PAIR_STEP
from training.vocabulary import Vocabulary

DRAWN = {"parameters": 0.35, "glosses": 0.35, "examples": 0.35, "words": 0.2}
"""How often a text is drawn, by source; 1 for others."""


def pair_keys(pieces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Encode pairs of neighbours as numbers."""
    return pieces[:-1] * PAIR_STEP + pieces[1:]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All hyperparameters."""

    dim: int = 256
    """Dimensions of a vector."""

    pairs: int = 60_000
    """Number of neighbour pairs that get a row."""

    passes: int = 6
    """Texts drawn in all, as a multiple of their number."""

    batch: int = 1024
    """Texts per step."""

    run: int = 64
    """Similar texts that stay together in a batch."""

    rate: float = 2e-3
    """Adam's step size at the start; it falls linearly to zero."""

    structure: float = 10.0
    """Weight of the difference between the matrices of cosines."""

    misspelt: float = 0.3
    """Share of texts with a typing error, in every second batch."""

    contrast: float = 0.1
    """Weight of the loss over requests and tools."""

    heat: float = 0.05
    """Temperature: cosines are divided by it before the cross entropy."""

    requests: int = 512
    """Requests per step."""

    threads: int = 2
    """CPU threads."""

    seed: int = 0
    """Random seed."""


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A table before it is compressed."""

    rows: NDArray[np.float32]
    """Vectors of the pieces, then of the pairs."""

    pairs: NDArray[np.int64]
    """Keys of the pairs, sorted."""


def learn(
    vocabulary: Vocabulary,
    texts: Sequence[str],
    sources: Sequence[str],
    targets: NDArray[np.float16],
    start: NDArray[np.float32],
    requests: Sequence[tuple[str, str, str]],
    recipe: Recipe,
) -> Learned:
    """Learn from texts and the teacher's vectors for them.

    Args:
        vocabulary: The pieces.
        texts: The texts.
        sources: Source of each text.
        targets: The teacher's vector for each text.
        start: The teacher's vector for each piece alone.
        requests: Tool, request, text of the tool.
        recipe: All hyperparameters.
    """
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(recipe.threads)
    dice = np.random.default_rng(recipe.seed)
    pieces = WordPieces(vocabulary.pieces)
    bags = Bags.of(pieces, texts)
    pairs = bags.frequent_pairs(recipe.pairs)
    projection = _principal(targets, recipe.dim, dice)
    wanted = _unit(targets.astype(np.float32) @ projection)
    weight = _starting_rows(start @ projection, bags.pieces)
    table = torch.nn.EmbeddingBag(len(weight) + len(pairs), recipe.dim, mode="sum")
    with torch.no_grad():
        table.weight.copy_(
            torch.from_numpy(np.concatenate([weight, np.zeros((len(pairs), recipe.dim))]))
        )
    adam = torch.optim.Adam(table.parameters(), lr=recipe.rate, fused=True)
    tools, asked = _request_bags(pieces, requests)
    drawn = np.array([DRAWN.get(source, 1.0) for source in sources])
    drawn /= drawn.sum()
    print(f"{len(texts)} texts, {len(weight)} pieces, {len(pairs)} pairs", flush=True)

    def vectors(given: "Bags", some: NDArray[np.int64]) -> torch.Tensor:
        return functional.normalize(table(*given.take(some, pairs, len(weight))))

    began = time.monotonic()
    steps, step = recipe.passes * (len(texts) // recipe.batch), 0
    for turn in range(recipe.passes):
        order = _in_runs(dice.choice(len(texts), len(texts), p=drawn), wanted, recipe.run, dice)
        apart, missed = 0.0, 0.0
        for at in range(0, len(order) - recipe.batch + 1, recipe.batch):
            adam.param_groups[0]["lr"] = recipe.rate * max(0.02, 1 - step / steps)
            some = order[at : at + recipe.batch]
            if step % 2:
                wrong = dice.random(len(some)) < recipe.misspelt
                read = [
                    misspell(texts[i], dice) if w else texts[i]
                    for i, w in zip(some, wrong, strict=True)
                ]
                mine = vectors(Bags.of(pieces, read), np.arange(len(some)))
            else:
                mine = vectors(bags, some)
            theirs = torch.from_numpy(wanted[some])
            distance = (1 - (mine * theirs).sum(1)).mean()
            shape = ((mine @ mine.T - theirs @ theirs.T) ** 2).mean()
            loss = distance + recipe.structure * shape
            if len(tools):
                part = dice.choice(len(tools), min(recipe.requests, len(tools)), replace=False)
                match = _match(
                    vectors(asked[0], part), vectors(asked[1], part), tools[part], recipe
                )
                loss = loss + recipe.contrast * match
                missed += match.item()
            adam.zero_grad()
            loss.backward()
            adam.step()
            apart += distance.item()
            step += 1
        count = len(order) // recipe.batch
        print(
            f"  pass {turn + 1}: 1 - cosine {apart / count:.4f}, requests {missed / count:.3f}, "
            f"{time.monotonic() - began:.0f} s",
            flush=True,
        )
    return Learned(rows=table.weight.detach().numpy(), pairs=pairs)


@dataclass(frozen=True, kw_only=True)
class Bags:
    """Pieces of many texts in one flat array."""

    pieces: NDArray[np.int64]
    """All pieces, text after text."""

    starts: NDArray[np.int64]
    """Where each text starts, and the end of the last."""

    @classmethod
    def of(cls, pieces: WordPieces, texts: Sequence[str]) -> "Bags":
        """The pieces of these texts; a text without any gets the unknown piece."""
        found = [pieces(text)[:128] or [0] for text in texts]
        lengths = np.array([len(numbers) for numbers in found])
        return cls(
            pieces=np.concatenate([np.asarray(numbers, np.int64) for numbers in found]),
            starts=np.concatenate([[0], np.cumsum(lengths)]),
        )

    def frequent_pairs(self, count: int) -> NDArray[np.int64]:
        """Keys of the most frequent neighbours, sorted."""
        inside = np.ones(len(self.pieces) - 1, bool)
        inside[self.starts[1:-1] - 1] = False
        keys, often = np.unique(pair_keys(self.pieces)[inside], return_counts=True)
        known = (keys >= PAIR_STEP) & (keys % PAIR_STEP > 0)  # no pair with the unknown piece
        keys, often = keys[known], often[known]
        return np.sort(keys[np.argsort(-often, kind="stable")[:count]])

    def take(
        self, some: NDArray[np.int64], pairs: NDArray[np.int64], first_pair: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the table, and the start of each of these texts among them."""
        lengths = self.starts[some + 1] - self.starts[some]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        flat = self.pieces[
            np.repeat(self.starts[some] - starts[:-1], lengths) + np.arange(starts[-1])
        ]
        owner = np.repeat(np.arange(len(some)), lengths)
        keys = pair_keys(flat)
        places = np.minimum(np.searchsorted(pairs, keys), len(pairs) - 1)
        known = (pairs[places] == keys) & (owner[:-1] == owner[1:])
        rows = np.concatenate([flat, first_pair + places[known]])
        owner = np.concatenate([owner, owner[:-1][known]])
        counts = np.bincount(owner, minlength=len(some))
        return (
            torch.from_numpy(rows[np.argsort(owner, kind="stable")]),
            torch.from_numpy(np.concatenate([[0], np.cumsum(counts)[:-1]])),
        )


def misspell(text: str, dice: np.random.Generator) -> str:
    """Misspell one word of four letters or more, if the random numbers choose one."""
    words = text.split(" ")
    at = int(dice.integers(len(words)))
    word = words[at]
    if len(word) < 4:
        return text
    i = int(dice.integers(1, len(word) - 1))
    other = "etaoinshrdlcumwfgypbvkjxqz"[int(dice.integers(26))]
    typed = (
        word[:i] + word[i + 1] + word[i] + word[i + 2 :],  # swapped
        word[:i] + word[i + 1 :],  # left out
        word[:i] + word[i] + word[i:],  # doubled
        word[:i] + other + word[i + 1 :],  # another key
    )
    words[at] = typed[int(dice.integers(4))]
    return " ".join(words)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def _principal(
    targets: NDArray[np.float16], dim: int, dice: np.random.Generator
) -> NDArray[np.float32]:
    some = dice.permutation(len(targets))[:60_000]
    sample = targets[some].astype(np.float32)
    _, vectors = np.linalg.eigh(sample.T @ sample)
    return np.ascontiguousarray(vectors[:, ::-1][:, :dim])


def _starting_rows(start: NDArray[np.float32], read: NDArray[np.int64]) -> NDArray[np.float32]:
    count = np.bincount(read, minlength=len(start)) + 1
    weight = 1e-3 / (1e-3 + count / count.sum())
    rows = _unit(start - start.mean(0)) * weight[:, None]
    rows[0] = 0
    return rows.astype(np.float32)


def _in_runs(
    drawn: NDArray[np.int64], wanted: NDArray[np.float32], run: int, dice: np.random.Generator
) -> NDArray[np.int64]:
    anchors = wanted[dice.choice(len(wanted), 400, replace=False)]
    nearest = np.concatenate(
        [(wanted[at : at + 8192] @ anchors.T).argmax(1) for at in range(0, len(wanted), 8192)]
    )
    order = drawn[np.argsort(nearest[drawn], kind="stable")]
    runs = np.array_split(order, max(1, len(order) // run))
    return np.concatenate([runs[i] for i in dice.permutation(len(runs))])


def _request_bags(
    pieces: WordPieces, requests: Sequence[tuple[str, str, str]]
) -> tuple[NDArray[np.int64], tuple[Bags, Bags]]:
    tools = np.unique([tool for tool, _, _ in requests], return_inverse=True)[1]
    asked = Bags.of(pieces, [request for _, request, _ in requests])
    return tools, (asked, Bags.of(pieces, [text for _, _, text in requests]))


def _match(
    asked: torch.Tensor, found: torch.Tensor, tools: NDArray[np.int64], recipe: Recipe
) -> torch.Tensor:
    same = torch.from_numpy(tools[:, None] == tools[None]).fill_diagonal_(False)
    logits = (asked @ found.T / recipe.heat).masked_fill(same, -1e4)
    right = torch.arange(len(tools))
    return (functional.cross_entropy(logits, right) + functional.cross_entropy(logits.T, right)) / 2
