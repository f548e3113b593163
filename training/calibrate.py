"""Fits the relevance of the hybrid search: `python -m training.calibrate --data FOLDER`.

Writes `src/toolgate/search/relevance/calibration.json`. Only train parts are
read: requests of metatool alone
and two joined, over its catalog and others beside it; the same with the needed tools taken away;
everyday requests of clinc150, which the catalogs hardly serve; and short phrases made of names and
descriptions of toucan's tools, over few of its servers and over all of them, with and without the
server that they come from.

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

from toolgate.cli.evaluation._measure import LabelledSet, Question, read_labelled
from toolgate.models.embedders.bundled import MODEL, BundledEmbedder
from toolgate.search import Hit, SearchableTool, SearchRequest
from toolgate.search.relevance.calibration import (
    COMPETITORS,
    Evidence,
    brevity,
    chance,
    mostly,
    shortness,
)
from toolgate.search.strategies.hybrid import HybridSearch, Options
from toolgate.search.tokenizer import split_identifier

OUT = Path(__file__).parents[1] / "src" / "toolgate" / "search" / "relevance" / "calibration.json"
PATIENT = Options(embedding_wait_s=60, embed_timeout_s=60)
FALSE_ALARMS = 0.102
"""Share of metatool's requests used for fitting that may get the notice, over all catalogs. Their
model has not seen them and they are vague: on the given sets half of that remains (`--check`)."""
SIZE = 2.0
"""How much the line rises with `chance`, as a logit. Likelihood alone would not raise it: a larger
catalog serves more, too. But what is said where nothing fits should not depend on its size."""
BRIEF = 12.0
"""How much more it rises with `brevity` than it would: phrases are said in a tool's own words here,
while those of people are not."""
HITS = (
    "bias",
    "cosine",
    "cosine_squared",
    "behind",
    "gap",
    "rivals",
    "covered",
    "short",
    "telling",
)
REQUESTS = ("bias", "cosine", "short", "brief", "found", "ahead")
"""What is known of a request; the line without a yardstick lacks the last."""
SHOWN = 10
"""Best hits of a request that are looked at."""
JOINED = 30.0
"""What a request for two tools counts, against one for a single tool: most of those that people ask
are said in one sentence, which no clause parts."""
NOTHING = 0.1
"""What all requests that nothing serves count, against all for a single tool."""
KINDS = {"served": 1.0, "joined": 0.3, "phrases": 1.0, "everyday": 3.0, "removed": 0.2, "gone": 1.0}
"""What the kinds of requests of a catalog count for the line, each as a whole: what it serves, two
of these in one, short phrases that it serves, what it hardly serves, what it serves no more, and
phrases likewise. What it serves and what it does not count the same in each catalog."""
SERVED = ("served", "joined", "phrases")
POLITE = "please "
"""Before a phrase it keeps a name from being found as a name, about which nothing is fitted."""
CURVE = (0.01, 0.02, 0.05, 0.1)
"""Shares of false alarms at which the notice is told."""
SELECTIONS = (12, 44, 44, 44, 44, 150, 400, 706)
"""Servers of each selection of toucan's: a person has a few or some dozens, a company hundreds."""
JOINTS = (" ", ". Also ", " and ", ", and ")


@dataclass(frozen=True)
class Seen:
    """What the search says to one request."""

    hits: tuple[Hit, ...]
    """Best first; none where a tool was called by its name, about which nothing is fitted."""
    helps: tuple[bool, ...]
    tools: int = 0
    """How many were searched."""
    is_polite: bool = False
    """Whether `POLITE` was put before it."""
    is_named: bool = False

    def rows(self) -> list[tuple[list[float], bool]]:
        """What is known of each of the best hits, in the order of `HITS`, and whether it helps."""
        first = max((hit.fields["score"] for hit in self.hits), default=0.0)
        nearest = max((hit.fields["cosine"] for hit in self.hits), default=0.0)
        return [
            (
                [
                    1.0,
                    hit.fields["cosine"],
                    hit.fields["cosine"] ** 2,
                    nearest - hit.fields["cosine"],
                    first - hit.fields["score"],
                    hit.fields["rivals"],
                    float(np.sqrt(hit.fields["covered"])),
                    shortness(hit.fields["words"]),
                    Evidence(
                        cosine=0, covered=0, words=hit.fields["words"], n_words=self.said
                    ).telling,
                ],
                helps,
            )
            for hit, helps in zip(self.hits[:SHOWN], self.helps, strict=False)
        ]

    @property
    def said(self) -> int:
        """Words of the request."""
        return self.hits[0].fields["said"] - self.is_polite

    @property
    def margin(self) -> float:
        """How far the best hit is above the line; far where a tool was called by its name."""
        if self.is_named:
            return np.inf
        return self.hits[0].fields["margin"] if self.hits else -np.inf

    def best(self) -> list[float]:
        """What is known of the request, in the order of `REQUESTS`."""
        fields = self.hits[0].fields
        return [
            1.0,
            fields["cosine"],
            shortness(fields["words"]),
            brevity(self.said),
            mostly(fields["found"]),
            fields["ahead"],
        ]

    def raised(self) -> float:
        """How much the line rises for the size of the catalog and a brief request, as a logit."""
        return SIZE * chance(self.tools) + BRIEF * brevity(self.said)


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
    catalogs: list[dict[str, list[Seen]]] = []
    for others in ((), ("toucan",), ("stabletoolbench",), ("mcpverse",)):
        catalog = read_labelled(
            sets / "metatool", [sets / other for other in others], split="train", most=most
        )
        found = {
            "served": await _seen(catalog.tools, catalog.questions, embedder),
            "joined": await _seen(catalog.tools, _joined(catalog.questions), embedder),
            "everyday": await _seen(catalog.tools, everyday, embedder),
        }
        if not others:
            found["removed"] = await _seen(*_without_needed(catalog), embedder)
        catalogs.append(found)
    dice = np.random.default_rng(0)
    toucan = read_labelled(sets / "mcpverse", [sets / "toucan"], most=1).tools
    own = {tool.key for tool in read_labelled(sets / "mcpverse", most=1).tools}
    for servers in SELECTIONS:
        tools = _selection([tool for tool in toucan if tool.key not in own], servers, dice)
        asked = _phrases(tools, most // 2, dice, said=POLITE)
        catalogs.append(
            {
                "phrases": await _seen(tools, asked, embedder),
                "gone": await _seen(tools, asked, embedder, without_server=True),
                "everyday": await _seen(tools, everyday[::2], embedder),
            }
        )
    made = {
        "source": "python -m training.calibrate; metatool train, clinc150 train, toucan's texts; "
        f"{embedder.identity}",
        "hits": _fitted_hits(catalogs),
        "line": _fitted_line(catalogs, REQUESTS),
        "line_alone": _fitted_line(catalogs, REQUESTS[:-1]),
    }
    OUT.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    print(OUT.read_text(encoding="utf-8"))


def _fitted_hits(catalogs: Sequence[Mapping[str, Sequence[Seen]]]) -> dict[str, float]:
    """The weights of what is known of a hit."""
    served, joined, nothing = (
        [seen for found in catalogs for kind in kinds for seen in found.get(kind, ())]
        for kinds in (("served",), ("joined",), ("removed", "everyday"))
    )
    share = NOTHING * _rows(served) / _rows(nothing)
    weights = _logistic(
        [row for seen in (*served, *joined, *nothing) for row in seen.rows()],
        [1.0] * _rows(served) + [JOINED] * _rows(joined) + [share] * _rows(nothing),
    )
    return {name: round(weight, 4) for name, weight in zip(HITS, weights, strict=True)}


def _fitted_line(
    catalogs: Sequence[Mapping[str, Sequence[Seen]]], names: Sequence[str]
) -> dict[str, float]:
    """The line of "nothing fits", as a cosine, from some of what is known of a request."""
    rows: list[tuple[list[float], bool]] = []
    counts: list[float] = []
    for found in catalogs:
        whole = {
            fits: sum(KINDS[kind] for kind in found if (kind in SERVED) == fits)
            for fits in (True, False)
        }
        for kind, asked in found.items():
            fits, known = kind in SERVED, [seen for seen in asked if seen.hits]
            rows += [(seen.best()[: len(names)], fits) for seen in known]
            counts += [1_000 * KINDS[kind] / whole[fits] / len(known)] * len(known)
    weights = _logistic(rows, counts)
    fitted = dict(zip(names, weights, strict=True))
    served = [seen for found in catalogs for seen in found.get("served", ()) if seen.hits]
    reached = [
        float(np.array(seen.best()[: len(names)]) @ np.array(weights)) - seen.raised()
        for seen in served
    ]
    cut = float(np.quantile(np.array(reached), FALSE_ALARMS))
    ahead = fitted.get("ahead", 0.0)
    whole_cosine = fitted["cosine"] + ahead
    line = {
        "cut": cut - fitted["bias"],
        "short": -fitted["short"],
        "brief": BRIEF - fitted["brief"],
        "size": SIZE,
        "found": fitted["found"],
        "ahead": ahead,
    }
    return {name: round(value / whole_cosine, 4) for name, value in line.items()}


async def check(data: Path, embedder: BundledEmbedder, most: int) -> None:
    """Print reliability and the notice on rows that were not used for fitting.

    Of each set also what would get the notice with a line of its own, drawn at some shares of false
    alarms: how well evidence tells the two apart, wherever the line is.
    """
    sets = data / "tools"
    clinc, hwu = (_everyday(data, "test", most, name) for name in ("clinc150", "hwu64"))
    at = "".join(f"{'at ' + format(share, '.0%'):>8}" for share in CURVE)
    print(f"{'set':24}{'requests':>9}{'ECE':>8}{'alarms':>8}{'notice':>8}{at}  nothing fits")
    for name, others in (
        ("mcpverse", ()),
        ("mcpverse", ("toucan",)),
        ("metatool", ()),
        ("metatool_multi", ()),
        ("stabletoolbench", ()),
    ):
        served = read_labelled(sets / name, [sets / other for other in others], most=most)
        asked = await _seen(served.tools, served.questions, embedder)
        for everyday, unserved in (("clinc150", clinc), ("hwu64", hwu)):
            noticed = await _seen(served.tools, unserved, embedder)
            _tell(served.name, asked, noticed, everyday)
    for name in ("mcpverse", "stabletoolbench"):
        tools = read_labelled(sets / name, most=1).tools
        phrases = _phrases(tools, most, np.random.default_rng(1))
        present = await _seen(tools, phrases, embedder)
        gone = await _seen(tools, phrases, embedder, without_server=True)
        _tell(f"phrases of {name}", present, gone, "server removed")


def _tell(name: str, served: Sequence[Seen], unserved: Sequence[Seen], kind: str) -> None:
    alarms, margins = (np.array([seen.margin for seen in each]) for each in (served, unserved))
    curve = "".join(f"{np.mean(margins < np.quantile(alarms, share)):8.3f}" for share in CURVE)
    print(
        f"{name:24}{len(served):9}{_error(_pairs(served)):8.3f}{_noticed(served):8.3f}"
        f"{_noticed(unserved):8.3f}{curve}  {kind}",
        flush=True,
    )


def _pairs(asked: Sequence[Seen]) -> list[tuple[float, bool]]:
    """What is said of each of the best hits, and whether it helps."""
    return [
        (hit.relevance, helps)
        for seen in asked
        for hit, helps in zip(seen.hits[:SHOWN], seen.helps, strict=False)
    ]


def _noticed(asked: Sequence[Seen]) -> float:
    return float(
        np.mean(
            [
                not seen.is_named and (not seen.hits or bool(seen.hits[0].fields.get("weak")))
                for seen in asked
            ]
        )
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


def _everyday(data: Path, split: str, most: int, name: str = "clinc150") -> tuple[Question, ...]:
    lines = (data / "intents" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
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
    labelled: LabelledSet,
) -> tuple[Sequence[SearchableTool], Sequence[Question]]:
    """Every third tool taken away, and the requests that need nothing else."""
    gone = {tool.key for tool in labelled.tools[::3]}
    tools = [tool for tool in labelled.tools if tool.key not in gone]
    asked = [q for q in labelled.questions if frozenset[str]().union(*q.groups) <= gone]
    return tools, [replace(question, groups=()) for question in asked]


def _selection(
    tools: Sequence[SearchableTool], most: int, dice: np.random.Generator
) -> list[SearchableTool]:
    servers = sorted({tool.server for tool in tools})
    some = {servers[int(at)] for at in dice.permutation(len(servers))[:most]}
    return [tool for tool in tools if tool.server in some]


def _phrases(
    tools: Sequence[SearchableTool], most: int, dice: np.random.Generator, *, said: str = ""
) -> tuple[Question, ...]:
    """Short phrases as an agent writes them: a name in words, or how a description begins."""
    found: list[Question] = []
    for turn, at in enumerate(dice.permutation(len(tools))[:most]):
        tool = tools[int(at)]
        first = re.split(r"(?<=[.!?])\s|\n", tool.description.strip())[0].split()
        words = (split_identifier(tool.name), first[:6], first[:10])[turn % 3]
        text = " ".join(words).strip(".,:; ")
        if len(text) >= 4 and text.isascii():
            phrase = said + text
            found.append(Question(id=tool.key, text=phrase, groups=(frozenset([tool.key]),)))
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
        if any(hit.source == "exact" for hit in answer.hits):
            found.append(Seen((), (), is_named=True))
            continue
        hits = tuple(hit for hit in answer.hits if hit.fields["cosine"] is not None)
        needed: Collection[str] = frozenset[str]().union(*question.groups)
        helps = tuple(not without_server and hit.key in needed for hit in hits)
        is_polite = question.text.startswith(POLITE)
        found.append(Seen(hits, helps, answer.searched, is_polite))
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
