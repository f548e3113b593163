"""Fits the relevance of the hybrid search: `python -m training.calibrate --data FOLDER`.

Writes `src/toolgate/search/_relevance.json`. Only train parts are read: requests of metatool alone
and two joined, over its catalog and others beside it; the same with the needed tools taken away;
everyday requests of clinc150, which the catalogs hardly serve; and short phrases made of names and
descriptions of toucan's tools, with and without the server that they come from.

The shipped model was tuned on metatool's requests, so they are nearer to their tools than anybody
else's. `--model` must name a table that was learned without them (`python -m training
--without-requests --out FILE`): what is fitted on it holds for requests that no model has seen.
`--check` prints how the numbers do with the shipped model on rows that were not used.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolgate.cli._measure import Labelled, Question, read_labelled
from toolgate.embed.bundled import MODEL, BundledEmbedder
from toolgate.search import Hit, SearchableTool, SearchRequest
from toolgate.search._calibration import COMPETITORS, crowd_of
from toolgate.search._text import split_identifier
from toolgate.search.hybrid import HybridSearch, Options

OUT = Path(__file__).parents[1] / "src" / "toolgate" / "search" / "_relevance.json"
PATIENT = Options(wait_s=60, embed_timeout_s=60)
FALSE_ALARMS = 0.09
"""Share of the served requests used for fitting that may get the notice."""
HITS = ("bias", "cosine", "gap", "rank", "crowd")
REQUESTS = ("bias", "cosine", "covered", "words")
SHOWN = 10
"""Best hits of a request that are looked at."""
SELECTIONS = 4
SERVERS = 44
"""Servers of a selection of toucan's, as many as a person with many has."""
JOINTS = (" ", ". Also ", " and ", ", and ")


@dataclass(frozen=True)
class Seen:
    """What the search says to one request."""

    hits: tuple[Hit, ...]
    """Best first, without exact names."""
    helps: tuple[bool, ...]

    def rows(self) -> list[tuple[list[float], bool]]:
        """What is known of each of the best hits, in the order of `HITS`, and whether it helps."""
        crowd = crowd_of([hit.fields["cosine"] for hit in self.hits])
        first = max((hit.fields["score"] for hit in self.hits), default=0.0)
        return [
            (
                [
                    1.0,
                    hit.fields["cosine"],
                    first - hit.fields["score"],
                    float(np.log1p(rank)),
                    crowd,
                ],
                helps,
            )
            for rank, (hit, helps) in enumerate(zip(self.hits, self.helps, strict=True))
        ][:SHOWN]

    def best(self) -> list[float]:
        """What is known of the request, in the order of `REQUESTS`."""
        fields = self.hits[0].fields
        covered = float(np.sqrt(fields["covered"]))
        return [1.0, fields["cosine"], covered, float(np.log1p(fields["words"]))]


def main() -> None:
    """Fit, or check."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of tools/ and intents/")
    parser.add_argument("--model", type=Path, default=MODEL, help="table of the embedder")
    parser.add_argument("--most", type=int, default=300, help="requests of a set at most")
    parser.add_argument("--check", action="store_true", help="only report on rows not used")
    given = parser.parse_args()
    embedder = BundledEmbedder(given.model)
    work = check if given.check else fit
    asyncio.run(work(given.data, embedder, given.most))


async def fit(data: Path, embedder: BundledEmbedder, most: int) -> None:
    """Write the file."""
    sets = data / "tools"
    everyday = _everyday(data, "train", most)
    served: list[Seen] = []
    joined: list[Seen] = []
    nothing: list[Seen] = []
    for others in ((), ("toucan",), ("stabletoolbench",), ("mcpverse",)):
        catalog = read_labelled(
            sets / "metatool", [sets / other for other in others], split="train", most=most
        )
        served += await _seen(catalog.tools, catalog.questions, embedder)
        joined += await _seen(catalog.tools, _joined(catalog.questions), embedder)
        if not others:
            nothing += await _seen(*_without_needed(catalog), embedder)
    for name, others in (("mcpverse", ()), ("metatool", ()), ("mcpverse", ("toucan",))):
        catalog = read_labelled(sets / name, [sets / other for other in others], most=1)
        nothing += await _seen(catalog.tools, everyday, embedder)
    phrases: list[Seen] = []
    gone: list[Seen] = []
    dice = np.random.default_rng(0)
    toucan = read_labelled(sets / "mcpverse", [sets / "toucan"], most=1).tools
    own = {tool.key for tool in read_labelled(sets / "mcpverse", most=1).tools}
    for _ in range(SELECTIONS):
        tools = _selection([tool for tool in toucan if tool.key not in own], dice)
        asked = _phrases(tools, most // 3, dice)
        phrases += await _seen(tools, asked, embedder)
        gone += await _seen(tools, asked, embedder, without_server=True)
        gone += await _seen(tools, everyday[::2], embedder)

    share = 0.2 * len(served) / len(nothing)
    of_hits = _logistic(
        [row for seen in (*served, *joined, *nothing) for row in seen.rows()],
        [1.0] * _rows(served) + [0.5] * _rows(joined) + [share] * _rows(nothing),
    )
    good, bad = [*served, *phrases], [*nothing, *gone]
    of_requests = _logistic(
        [
            *((seen.best(), True) for seen in good if seen.hits),
            *((seen.best(), False) for seen in bad if seen.hits),
        ],
        None,
    )
    weights = np.array(of_requests)
    cut = float(np.quantile([np.dot(weights, s.best()) for s in good if s.hits], FALSE_ALARMS))
    made = {
        "source": "python -m training.calibrate; metatool train, clinc150 train, toucan's texts; "
        f"{embedder.identity}",
        **{name: round(value, 4) for name, value in zip(HITS, of_hits, strict=True)},
        "cut": round((cut - of_requests[0]) / of_requests[1], 4),
        "cut_covered": round(of_requests[2] / of_requests[1], 4),
        "cut_words": round(of_requests[3] / of_requests[1], 4),
    }
    OUT.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"))


async def check(data: Path, embedder: BundledEmbedder, most: int) -> None:
    """Print reliability and the notice on rows that were not used for fitting."""
    sets = data / "tools"
    everyday = _everyday(data, "test", most)
    print(
        f"{'set':24}{'requests':>9}{'ECE':>8}{'false alarms':>14}{'notice where nothing fits':>27}"
    )
    for name, others in (
        ("mcpverse", ()),
        ("mcpverse", ("toucan",)),
        ("metatool", ()),
        ("metatool_multi", ()),
        ("stabletoolbench", ()),
    ):
        served = read_labelled(sets / name, [sets / other for other in others], most=most)
        asked = await _seen(served.tools, served.questions, embedder)
        pairs = [
            (hit.relevance, helps)
            for seen in asked
            for hit, helps in zip(seen.hits[:SHOWN], seen.helps, strict=False)
        ]
        noticed = await _seen(served.tools, everyday, embedder)
        print(
            f"{served.name:24}{len(asked):9}{_error(pairs):8.3f}{_noticed(asked):14.3f}"
            f"{_noticed(noticed):19.3f} clinc150",
            flush=True,
        )
    for name in ("mcpverse", "stabletoolbench"):
        tools = read_labelled(sets / name, most=1).tools
        phrases = _phrases(tools, most, np.random.default_rng(1))
        present = await _seen(tools, phrases, embedder)
        gone = await _seen(tools, phrases, embedder, without_server=True)
        print(
            f"{'phrases of ' + name:24}{len(phrases):9}{'':8}{_noticed(present):14.3f}"
            f"{_noticed(gone):19.3f} server removed",
            flush=True,
        )


def _noticed(asked: Sequence[Seen]) -> float:
    return float(
        np.mean([not seen.hits or bool(seen.hits[0].fields.get("weak")) for seen in asked])
    )


def _error(pairs: Sequence[tuple[float, bool]]) -> float:
    """Expected calibration error over ten bins."""
    said = np.array([relevance for relevance, _ in pairs])
    true = np.array([helps for _, helps in pairs], float)
    bins = np.minimum((said * 10).astype(int), 9)
    return float(
        sum(
            abs(said[bins == each].mean() - true[bins == each].mean()) * (bins == each).mean()
            for each in np.unique(bins)
        )
    )


def _rows(seen: Sequence[Seen]) -> int:
    return sum(len(each.rows()) for each in seen)


def _everyday(data: Path, split: str, most: int) -> tuple[Question, ...]:
    lines = (data / "intents" / "clinc150.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == split and not row["oos"]]
    rows = [rows[at * len(rows) // most] for at in range(most)] if len(rows) > most else rows
    return tuple(Question(id=row["id"], text=row["text"], groups=()) for row in rows)


def _joined(questions: Sequence[Question]) -> tuple[Question, ...]:
    """Requests for two tools: each with another one behind it."""
    found: list[Question] = []
    for at, one in enumerate(questions):
        other = questions[(at * 7 + 3) % len(questions)]
        if one.groups == other.groups:
            continue
        joint = JOINTS[at % len(JOINTS)]
        text = one.text if joint == " " else one.text.rstrip(".?! ")
        found.append(
            replace(one, text=f"{text}{joint}{other.text}", groups=(*one.groups, *other.groups))
        )
    return tuple(found)


def _without_needed(
    labelled: Labelled,
) -> tuple[Sequence[SearchableTool], Sequence[Question]]:
    """Every third tool taken away, and the requests that need nothing else."""
    gone = {tool.key for tool in labelled.tools[::3]}
    tools = [tool for tool in labelled.tools if tool.key not in gone]
    asked = [q for q in labelled.questions if frozenset[str]().union(*q.groups) <= gone]
    return tools, [replace(question, groups=()) for question in asked]


def _selection(tools: Sequence[SearchableTool], dice: np.random.Generator) -> list[SearchableTool]:
    servers = sorted({tool.server for tool in tools})
    some = {servers[int(at)] for at in dice.choice(len(servers), SERVERS, replace=False)}
    return [tool for tool in tools if tool.server in some]


def _phrases(
    tools: Sequence[SearchableTool], most: int, dice: np.random.Generator
) -> tuple[Question, ...]:
    """Short phrases as an agent writes them: a name in words, or how a description begins."""
    found: list[Question] = []
    for turn, at in enumerate(dice.permutation(len(tools))[:most]):
        tool = tools[int(at)]
        first = re.split(r"(?<=[.!?])\s|\n", tool.description.strip())[0].split()
        words = (split_identifier(tool.name), first[:6], first[:10])[turn % 3]
        text = " ".join(words).strip(".,:; ")
        if len(text) >= 4 and text.isascii():
            found.append(Question(id=tool.key, text=text, groups=(frozenset([tool.key]),)))
    return tuple(found)


async def _seen(
    tools: Iterable[SearchableTool],
    questions: Iterable[Question],
    embedder: BundledEmbedder,
    *,
    without_server: bool = False,
) -> list[Seen]:
    """What the search says; `without_server` hides the server of the tool named by the id."""
    tools = tuple(tools)
    search = HybridSearch(PATIENT, embedder)
    await search.update(tools)
    await search.ready()
    servers = np.array([tool.server for tool in tools])
    server_of: Mapping[str, str] = {tool.key: tool.server for tool in tools}
    found: list[Seen] = []
    for question in questions:
        mask = servers != server_of[question.id] if without_server else None
        wanted = SearchRequest(queries=(question.text,), limit=COMPETITORS, mask=mask)
        answer = await search.search(wanted)
        hits = tuple(
            hit for hit in answer.hits if hit.source != "exact" and hit.fields["cosine"] is not None
        )
        needed: Collection[str] = frozenset[str]().union(*question.groups)
        helps = tuple(not without_server and hit.key in needed for hit in hits)
        found.append(Seen(hits, helps))
    return found


def _logistic(
    rows: Sequence[tuple[list[float], bool]], shares: Sequence[float] | None
) -> list[float]:
    """Weights of a logistic regression, by Newton's method with a little ridge."""
    x = np.array([row for row, _ in rows])
    y = np.array([helps for _, helps in rows], float)
    share = np.ones(len(y)) if shares is None else np.array(shares)
    weights: NDArray[np.float64] = np.zeros(x.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-(x @ weights)))
        slope = x.T @ (share * (y - p)) - 0.01 * weights
        curve = (x * (share * p * (1 - p))[:, None]).T @ x + 0.01 * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return [float(weight) for weight in weights]


if __name__ == "__main__":
    main()
