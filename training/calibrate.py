"""Fits what the hybrid search says about its hits: `python -m training.calibrate --data FOLDER`.

Two logistic models in `src/toolgate/search/relevance/calibration.json`: how likely a hit helps, and
whether anything fits a request. They are fitted together on short phrases (`benchmarks/data`, over
the tools of 37 servers and of some of them), on requests written for servers of public catalogs
and on long questions (FOLDER/tools), and checked on rows that were not used: phrases by other
writers, every second catalog, every second question. `--check` writes nothing
and fails if the file is not what the fit gives.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks._phrases import (
    phrase_sets,
    phrases_of_single_servers,
    phrases_of_some_servers,
    real_tools,
    served_or_not,
)
from toolgate.evaluation.search_metrics import Question, read_labelled
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import Hit, SearchableTool, SearchRequest
from toolgate.search.relevance.calibration import (
    COMPETITORS,
    Evidence,
    FitModel,
    brevity,
    chance,
    hit_evidence,
    interpolated,
    request_evidence,
)
from toolgate.search.relevance.typical_requests import KindMatch
from toolgate.search.strategies.hybrid import HybridSearch, Options
from training._shipped import ship
from training.written_requests import sets_of_servers

OUT: Final = Path(__file__).parents[1] / "src/toolgate/search/relevance/calibration.json"
LONG: Final = (
    ("mcpverse", ()),
    ("mcpverse", ("toucan",)),
    ("metatool_multi", ()),
    ("stabletoolbench", ()),
    ("bfcl_live", ()),
    ("bfcl_basic", ()),
)
"""Sets of questions, and what is added to their catalogs."""
PEOPLES: Final = "mcpverse"
"""Start of the names of the sets that people wrote; those of models were written from the tools'
descriptions. They count twice for the relevance of hits."""
MOST: Final = 400
"""Questions used from a set."""
SHOWN: Final = 10
"""Best hits of a request to which relevance is fitted."""
FALSE_ALARMS: Final = 0.04
"""Share of served short requests, on average over the catalogs, for which "nothing fits" may be
said."""
LONG_FALSE_ALARMS: Final = 0.02
"""The same for long requests, in any set; they contain more to go by."""
SMALL: Final = "phrases, up to"
"""Start of the names of the groups of requests over single servers with few tools. They count for
the cutoff only: weights that fit these as well are worse for many tools."""
TINY_FALSE_ALARMS: Final = 0.01
"""The same as `FALSE_ALARMS` for the smallest of these: showing a handful of tools does no harm."""
SURE: Final = 0.85
"""Probability from which something fits."""
KIND_FIELDS: Final = tuple(f"kind_{name}" for name in KindMatch._fields)
"""What a hit tells about the kinds of tools."""
RIDGE: Final = 1e-3
"""Penalty of a weight, as a share of all rows."""


@dataclass(frozen=True)
class Seen:
    """The search's answer to one request."""

    evidence: tuple[Evidence, ...]
    """The best hits; none if a tool was called by its name."""
    helps: tuple[bool, ...]
    """Whether each hit is a needed tool."""
    is_served: bool
    """Whether the catalog has a needed tool."""


class Line(NamedTuple):
    """The logit below which nothing fits, as used by `FitModel`."""

    long: float
    """The line of a long request."""
    brief: Sequence[tuple[float, float]]
    """What a unit of `brevity` adds for catalogs of some `chance`."""

    def at(self, evidence: Evidence) -> float:
        """Return the line for one request."""
        brief = interpolated(self.brief, chance(evidence.tools))
        return self.long + brief * brevity(evidence.n_words)


Group = tuple[str, Sequence[Seen]]
"""A named group of requests; all groups have the same weight."""


async def ask(tools: Sequence[SearchableTool], questions: Iterable[Question]) -> list[Seen]:
    """Run requests over a catalog and return the search's answers."""
    search = HybridSearch(Options(embedding_wait_s=60, embed_timeout_s=60), BundledEmbedder())
    await search.update(tools)
    await search.ready()
    keys = {tool.key for tool in tools}
    seen: list[Seen] = []
    for question in questions:
        answer = await search.search(SearchRequest(queries=(question.text,), limit=COMPETITORS))
        needed = frozenset[str]().union(*question.groups)
        hits = [hit for hit in answer.hits if hit.fields.get("cosine") is not None]
        if any(hit.source == "exact" for hit in answer.hits) or not hits:
            continue
        seen.append(
            Seen(
                evidence=_evidence(hits, answer.searched),
                helps=tuple(hit.key in needed for hit in hits[:SHOWN]),
                is_served=bool(needed & keys),
            )
        )
    await search.aclose()
    return seen


def _evidence(hits: Sequence[Hit], searched: int) -> tuple[Evidence, ...]:
    """Return the evidence for the best hits, from their explanation."""
    first = hits[0].fields["score"]
    nearest = max(hit.fields["cosine"] for hit in hits)
    kinds = None
    if "kind_served" in hits[0].fields:
        kinds = KindMatch(*(hits[0].fields[name] for name in KIND_FIELDS))
    return tuple(
        Evidence(
            cosine=hit.fields["cosine"],
            covered=hit.fields["bm25_coverage"],
            gap=max(0.0, first - hit.fields["score"]),
            rivals=hit.fields["close_competitors"],
            word_share=hit.fields["word_coverage"],
            words=hit.fields["content_words"],
            n_words=hit.fields["total_words"],
            behind=max(0.0, nearest - hit.fields["cosine"]),
            tools=searched,
            ahead=hit.fields["background_margin"],
            named=hit.fields["name_coverage"],
            name_share=hit.fields["name_share"],
            highest=nearest,
            own=hits[0].fields["own_cosine"],
            most_covered=max(other.fields["bm25_coverage"] for other in hits),
            kinds=kinds,
        )
        for hit in hits[:SHOWN]
    )


async def phrase_groups(split: str) -> list[Group]:
    """Short requests over the tools of all servers, and of some."""
    sets = [*phrase_sets(split), *phrases_of_some_servers(split)]
    groups: list[Group] = [
        (phrases.name, await ask(phrases.tools, phrases.questions)) for phrases in sets
    ]
    for name, catalogs in phrases_of_single_servers(split).items():
        seen = [await ask(phrases.tools, phrases.questions) for phrases in catalogs]
        groups.append((name, [request for of_server in seen for request in of_server]))
    return groups


async def other_requests(split: str) -> Group:
    """Requests of another writer to the tools of all servers."""
    requests = served_or_not(split)
    return requests.name, await ask(requests.tools, requests.questions)


async def written_groups(data: Path, part: int) -> list[Group]:
    """Requests written for servers of public catalogs: the even sets (`part` 0) or the odd ones.

    They count for the weights, but not for the cutoff: their writers avoided the words of the
    tools, so they are harder than what people usually ask.
    """
    sets = sets_of_servers(data)[part::2]
    return [(labelled.name, await ask(labelled.tools, labelled.questions)) for labelled in sets]


async def question_groups(data: Path, part: int) -> list[Group]:
    """Long questions: the even ones (`part` 0) or the odd ones (1)."""
    groups: list[Group] = []
    for name, others in LONG:
        folders = [data / "tools" / other for other in others]
        labelled = read_labelled(data / "tools" / name, folders, limit=2 * MOST)
        groups.append((labelled.name, await ask(labelled.tools, labelled.questions[part::2])))
    return groups


async def everyday_group(data: Path, split: str) -> Group:
    """What people ask assistants; the tools of the 37 servers serve next to none of it."""
    lines = (data / "intents" / "clinc150.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [
        row
        for row in map(json.loads, lines)
        if row["split"] == split and not row["oos"] and row["intent"] not in _SERVED_INTENTS
    ]
    rows = rows[:: len(rows) // MOST]
    tools = real_tools()
    questions = [Question(id=str(at), text=row["text"], groups=()) for at, row in enumerate(rows)]
    return "everyday", await ask(tools, questions)


_SERVED_INTENTS: Final = frozenset(
    {"time", "timezone", "definition", "calculator", "todo_list", "todo_list_update", "translate"}
    | {
        "reminder",
        "reminder_update",
        "make_call",
        "change_volume",
        "text",
        "what_song",
        "play_music",
    }
)
"""Intents for which one of the servers may well have a tool."""


def fit(groups: Sequence[Group]) -> dict[str, Any]:
    """The weights of both models."""
    with_ahead = _fit_model(groups, request_evidence)
    alone = _fit_model(
        groups,
        lambda evidence: request_evidence(evidence._replace(ahead=None, kinds=None)),
        without=("ahead", "own", *KIND_FIELDS),
    )
    model = FitModel(**with_ahead)
    rows = [
        (
            hit_evidence(evidence, model.logit(evidence)),
            helps,
            (2 if name.startswith(PEOPLES) else 1) / len(seen),
        )
        for name, seen in groups
        for request in seen
        for evidence, helps in zip(request.evidence, request.helps, strict=True)
    ]
    return {"hits": _logistic(rows), "fit": with_ahead, "fit_alone": alone}


def _fit_model(
    groups: Sequence[Group],
    known: Callable[[Evidence], Mapping[str, float]],
    without: Collection[str] = (),
) -> dict[str, Any]:
    rows: list[tuple[Mapping[str, float], bool, float]] = []
    large = [(name, seen) for name, seen in groups if not name.startswith(SMALL)]
    for is_served in (True, False):
        parts = [
            [request for request in seen if request.is_served == is_served] for _, seen in large
        ]
        parts = [part for part in parts if part]
        for part in parts:
            rows += [
                (
                    {
                        name: x
                        for name, x in known(request.evidence[0]).items()
                        if name not in without
                    },
                    is_served,
                    1 / len(part) / len(parts),
                )
                for request in part
            ]
    weights = _logistic(rows)
    questions = _questions(large)
    phrases = _phrases(large)
    sizes, counts = _sizes(phrases), np.sqrt([len(seen) for seen in phrases])
    # One server at a time: too few requests of each size to fit a slope.
    single = _served(seen for name, seen in groups if name.startswith(SMALL))
    single_sizes = _sizes(single)
    tiny, *small = single
    ends = (min(sizes), max(sizes))
    line = Line(long=0.0, brief=[(0.0, 0.0)])
    # The line depends on how brief a request is, and that on the line: a few rounds converge.
    for _ in range(20):
        flat = line._replace(long=0.0)
        long = min(_quantile(seen, weights, known, flat, LONG_FALSE_ALARMS) for seen in questions)
        above = Line(long=long, brief=[(0.0, 0.0)])
        off = [
            _quantile(tiny, weights, known, above, TINY_FALSE_ALARMS),
            *(_quantile(seen, weights, known, above) for seen in (*small, *phrases)),
        ]
        off = [value / brevity(0) for value in off]
        slope = np.polyfit(sizes, off[len(single) :], 1, w=counts)
        heights = [*off[: len(single)], *np.polyval(slope, ends).tolist()]
        points = zip((*single_sizes, *ends), heights, strict=True)
        line = Line(long=long, brief=[(round(x, 4), round(y, 4)) for x, y in points])
    return {
        "weights": weights,
        "none_below": round(line.long, 4),
        "none_brief": [list(point) for point in line.brief],
        "good_from": round(float(np.log(SURE / (1 - SURE))), 4),
    }


def _sizes(groups: Sequence[Sequence[Seen]]) -> list[float]:
    """Return the mean `chance` of the catalogs of each group."""
    return [fmean(chance(request.evidence[0].tools) for request in seen) for seen in groups]


def _quantile(
    seen: Sequence[Seen],
    weights: Mapping[str, float],
    known: Callable[[Evidence], Mapping[str, float]],
    line: Line,
    false_alarms: float = FALSE_ALARMS,
) -> float:
    """Return by how much to raise a line for a given share of false alarms."""
    logits = [
        _logit(weights, known(request.evidence[0])) - line.at(request.evidence[0])
        for request in seen
    ]
    return float(np.quantile(logits, false_alarms))


def _phrases(groups: Sequence[Group]) -> list[list[Seen]]:
    """The short requests that are served, by catalog."""
    return _served(seen for name, seen in groups if name.startswith("phrases"))


def _questions(groups: Sequence[Group]) -> list[list[Seen]]:
    """The long ones, by set."""
    return _served(seen for name, seen in groups if not name.startswith(("phrases", "written")))


def _served(sets: Iterable[Sequence[Seen]]) -> list[list[Seen]]:
    by_set = ([request for request in seen if request.is_served] for seen in sets)
    return [seen for seen in by_set if seen]


def _logit(weights: Mapping[str, float], known: Mapping[str, float]) -> float:
    return sum(weight * known[name] for name, weight in weights.items())


def _logistic(rows: Sequence[tuple[Mapping[str, float], bool, float]]) -> dict[str, float]:
    """Weights of a logistic regression by name, by Newton's method with a small ridge."""
    names = list(rows[0][0])
    x = np.array([[known[name] for name in names] for known, _, _ in rows])
    y = np.array([truth for _, truth, _ in rows], float)
    share = np.array([weight for _, _, weight in rows])
    share *= len(rows) / share.sum()
    spread = x.std(axis=0)
    spread[spread == 0] = 1.0
    scaled = x / spread
    penalty = RIDGE * len(rows)
    weights: NDArray[np.float64] = np.zeros(len(names))
    for _ in range(100):
        p = 1 / (1 + np.exp(-(scaled @ weights)))
        slope = scaled.T @ (share * (y - p)) - penalty * weights
        curve = (scaled * (share * p * (1 - p))[:, None]).T @ scaled
        step = np.linalg.solve(curve + penalty * np.eye(len(names)), slope)
        weights = weights + step
        if np.abs(step).max() < 1e-8:
            break
    return {name: round(float(w), 4) for name, w in zip(names, weights / spread, strict=True)}


def report(groups: Sequence[Group], fitted: Mapping[str, Any]) -> None:
    """Print errors of the relevance and shares of the three answers for each group."""
    model = FitModel(**fitted["fit"])
    heads = "".join(f"{name:>8}{'none':>7}{'good':>7}" for name in ("served", "not"))
    print(f"{'':24}{heads}{'AUC':>7}{'ECE':>7}{'said':>7}{'true':>7}")
    for name, seen in groups:
        margins: dict[bool, NDArray[np.float64]] = {}
        sure: dict[bool, NDArray[np.bool_]] = {}
        for is_served in (True, False):
            known = [request.evidence[0] for request in seen if request.is_served == is_served]
            margins[is_served] = np.array([model.margin(evidence) for evidence in known])
            sure[is_served] = margins[is_served] >= np.array(
                [model.sure_margin(evidence) for evidence in known]
            )
        cells = "".join(
            f"{len(part):8}{np.mean(part < 0):7.3f}{np.mean(sure[is_served]):7.3f}"
            if len(part)
            else f"{0:8}{'':14}"
            for is_served, part in margins.items()
        )
        stated = [
            np.array(
                [
                    _relevance(request.evidence[0], fitted)
                    for request in seen
                    if request.is_served == is_served
                ]
            )
            for is_served in (True, False)
        ]
        area = f"{_area(*stated):7.3f}" if all(map(len, stated)) else f"{'':7}"
        errors = "".join(f"{value:7.3f}" for value in _errors(seen, fitted))
        print(f"{name:24}{cells}{area}{errors}", flush=True)


def _relevance(evidence: Evidence, fitted: Mapping[str, Any]) -> float:
    """Return what is known about a hit, before any line."""
    known = hit_evidence(evidence, FitModel(**fitted["fit"]).logit(evidence))
    return float(1 / (1 + np.exp(-_logit(fitted["hits"], known))))


def _area(served: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Area under the curve: how often a served request ranks above an unserved one."""
    return float(np.mean(served[:, None] > other) + 0.5 * np.mean(served[:, None] == other))


def _errors(seen: Sequence[Seen], fitted: Mapping[str, Any]) -> tuple[float, float, float]:
    """Expected calibration error of the relevance over ten bins; its mean, and the true one."""
    pairs = [
        (_relevance(evidence, fitted), helps)
        for request in seen
        for evidence, helps in zip(request.evidence, request.helps, strict=True)
    ]
    said = np.array([relevance for relevance, _ in pairs])
    truth = np.array([helps for _, helps in pairs], float)
    bins = np.minimum((said * 10).astype(int), 9)
    error = float(
        sum(
            abs(said[bins == at].mean() - truth[bins == at].mean()) * (bins == at).mean()
            for at in np.unique(bins)
        )
    )
    return error, float(said.mean()), float(truth.mean())


async def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of tools/ and intents/")
    parser.add_argument("--check", action="store_true", help="compare the file with a new fit")
    given = parser.parse_args()
    (name, phrases), *rest = await phrase_groups("fit")
    _, others = await other_requests("fit")
    groups = [
        (name, [*phrases, *others]),
        *rest,
        *await written_groups(given.data, 0),
        *await question_groups(given.data, 0),
        await everyday_group(given.data, "train"),
    ]
    source = f"python -m training.calibrate; {BundledEmbedder().identity}"
    ship(OUT, {"source": source, **fit(groups)}, check=given.check)
    print("Used for fitting")
    report(groups, json.loads(OUT.read_text("utf-8")))
    print("Not used")
    held_out = [
        *await phrase_groups("held-out"),
        await other_requests("held-out"),
        *await written_groups(given.data, 1),
        *await question_groups(given.data, 1),
        await everyday_group(given.data, "test"),
    ]
    report(held_out, json.loads(OUT.read_text("utf-8")))


if __name__ == "__main__":
    asyncio.run(_main())
