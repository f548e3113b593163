"""Measures what learning from use adds.

    python -m benchmarks.learning [DATA] [--sets mcpverse,…] [--parts folds,…] [--quick] [--json]

DATA is a folder of labelled sets (tools.jsonl, queries.jsonl), such as mcpverse and
stabletoolbench. The log consists of a fifth or four fifths of the requests with the tools that they
need; the others are asked. Where nothing repeats, the log must cost nothing. Also measured: what
recent tools, alternatives and batches add, how marks change when "nothing fits" is said, and how
much is lost by searching only the nearest groups.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

import anyio
import numpy as np

from benchmarks._data import DATA
from benchmarks._phrases import shortened
from benchmarks._report import Report, parser_of, print_measured
from toolgate.evaluation.search_metrics import LabelledSet, read_labelled, score_ranking
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchRequest
from toolgate.search.answer.capability_groups import grouped
from toolgate.search.personal_cutoff import JudgedSearch, PersonalCutoff
from toolgate.search.relevance.tool_habits import ToolHabits
from toolgate.search.relevance.usage_votes import UsageHistory, UsageWeights
from toolgate.search.semantic.near_duplicates import find_near_duplicates
from toolgate.search.strategies.hybrid import HybridSearch, Options, build
from toolgate.search.usage.learning import Learned

DEPTH = 20
FOLDS = 5
DAY_S = 86_400
WRONG_SHARE = 0.05
"""Share of the pairs of a log that name another tool of the set instead."""
HALVES = 4
"""Number of random halves of the requests that are the log in turn."""
PARTS = ("folds", "halves", "wrong", "recent", "company", "line", "groups")


async def index(labelled: LabelledSet, usage: UsageWeights) -> HybridSearch:
    options = Options(
        embedding_wait_s=60.0, embed_timeout_s=30.0, cached_queries=100_000, usage=usage
    )
    search = build(options, embedder=BundledEmbedder())
    await search.update(labelled.tools)
    await search.ready()
    return search


async def asked(search: HybridSearch, text: str, **more: Any) -> Any:
    return await search.search(SearchRequest(queries=(text,), limit=DEPTH, **more))


def log_of(
    vectors: Sequence[Any],
    labelled: LabelledSet,
    places: Sequence[int],
    model: str,
    wrong: Mapping[int, str] = MappingProxyType({}),
) -> Learned:
    """A log in which each request at `places` used its tools, or the one that `wrong` names."""
    experience = UsageHistory(len(vectors[0]), half_life_s=60 * DAY_S, max_requests=100_000)
    habits = ToolHabits()
    for at in places:
        vector, caller = vectors[at].astype("<f2").tobytes(), labelled.questions[at].id
        for group in labelled.questions[at].groups:
            key = wrong.get(at) or min(group)
            experience.add(vector, key, 1.0, 0.0, caller=caller)
            habits.add(key, 0.0, caller=caller, conversation="")
    return Learned({model: experience}, 0.0, habits=habits)


async def folds(labelled: LabelledSet, usage: UsageWeights) -> dict[str, Any]:
    """R@1 and R@5 without a log, with a log of a fifth, and of four fifths."""
    search = await index(labelled, usage)
    plain = [await asked(search, question.text) for question in labelled.questions]
    vectors = [answer.queries[0].vector for answer in plain]
    model = plain[0].model
    groups = [question.groups for question in labelled.questions]
    number = [at % FOLDS for at in range(len(groups))]
    scores = {
        "none": [
            score_ranking([h.key for h in a.hits], g) for a, g in zip(plain, groups, strict=True)
        ]
    }
    for name, in_log in (("fifth", lambda a, k: a == k), ("four fifths", lambda a, k: a != k)):
        found = []
        for fold in range(FOLDS):
            places = [at for at, each in enumerate(number) if in_log(each, fold)]
            learned = log_of(vectors, labelled, places, model)
            for at in sorted(set(range(len(groups))) - set(places)):
                answer = await asked(search, labelled.questions[at].text, learned=learned)
                found.append(score_ranking([hit.key for hit in answer.hits], groups[at]))
        scores[name] = found
    await search.aclose()
    return {
        name: {metric: round(fmean(row[metric] for row in rows), 4) for metric in ("R@1", "R@5")}
        for name, rows in scores.items()
    }


async def halves(labelled: LabelledSet) -> dict[str, dict[str, float]]:
    """R@5 with a log of half of the other requests, by number of steps, without and with habits."""
    scores: dict[str, dict[str, list[float]]] = {}
    for name, usage in (
        ("no log", UsageWeights(weight=0.0, habit_weight=0.0)),
        ("similar requests", UsageWeights(habit_weight=0.0)),
        ("similar requests and habits", UsageWeights()),
    ):
        search = await index(labelled, usage)
        plain = [await asked(search, question.text) for question in labelled.questions]
        vectors = [answer.queries[0].vector for answer in plain]
        for number in range(HALVES):
            order = np.random.default_rng(number).permutation(len(plain)).tolist()
            log, rest = order[: len(order) // 2], order[len(order) // 2 :]
            learned = log_of(vectors, labelled, log, plain[0].model)
            for at in rest:
                question = labelled.questions[at]
                answer = await asked(search, question.text, learned=learned)
                found = score_ranking([hit.key for hit in answer.hits], question.groups)["R@5"]
                steps = "one step" if len(question.groups) == 1 else "several steps"
                scores.setdefault(name, {}).setdefault(steps, []).append(found)
        await search.aclose()
    return {
        name: {
            **{steps: round(fmean(found), 4) for steps, found in by_steps.items()},
            **{f"{steps}, requests": len(found) for steps, found in by_steps.items()},
        }
        for name, by_steps in scores.items()
    }


async def wrong_pairs(labelled: LabelledSet) -> dict[str, float]:
    """nDCG@10 with a log of four fifths, and with one in which some requests used another tool."""
    search = await index(labelled, UsageWeights())
    plain = [await asked(search, question.text) for question in labelled.questions]
    vectors = [answer.queries[0].vector for answer in plain]
    rng = np.random.default_rng(0)
    keys = [tool.key for tool in labelled.tools]
    n_wrong = round(WRONG_SHARE * len(plain))
    wrong = {
        int(at): keys[rng.integers(len(keys))]
        for at in rng.choice(len(plain), n_wrong, replace=False)
    }
    figures: dict[str, float] = {}
    for name, mistakes in (("right", {}), ("5 % wrong", wrong)):
        scores: list[float] = []
        for fold in range(FOLDS):
            places = [at for at in range(len(plain)) if at % FOLDS != fold]
            learned = log_of(vectors, labelled, places, plain[0].model, mistakes)
            for at in range(fold, len(plain), FOLDS):
                question = labelled.questions[at]
                answer = await asked(search, question.text, learned=learned)
                ranked = [hit.key for hit in answer.hits]
                scores.append(score_ranking(ranked, question.groups)["nDCG@10"])
        figures[name] = round(fmean(scores), 4)
    await search.aclose()
    return {**figures, "cost": round(figures["right"] - figures["5 % wrong"], 4)}


async def recent(labelled: LabelledSet, weight: float) -> dict[str, float]:
    """R@5 of what is needed besides the first tool, which the conversation has just used."""
    search = await index(labelled, UsageWeights(recent_weight=weight))
    without, having = [], []
    for question in labelled.questions:
        if len(question.groups) < 2:
            continue
        used, rest = min(question.groups[0]), question.groups[1:]
        for rows, more in ((without, {}), (having, {"recent": (used,)})):
            answer = await asked(search, question.text, **more)
            keys = [hit.key for hit in answer.hits if hit.key != used]
            rows.append(score_ranking(keys, rest)["R@5"])
    await search.aclose()
    return {"requests": len(without), "without": fmean(without), "with": fmean(having)}


async def company(labelled: LabelledSet) -> dict[str, float]:
    """Needed tools that an answer of five names: as hits, with alternatives, with batches."""
    search = await index(labelled, UsageWeights())
    near = find_near_duplicates(labelled.tools, search.vectors())
    rows: dict[str, list[float]] = {"hits": [], "alternatives": [], "batches": []}
    for fold in range(FOLDS):
        pairs: dict[str, Counter[str]] = {}
        uses: Counter[str] = Counter()
        for at, question in enumerate(labelled.questions):
            tools = [min(group) for group in question.groups]
            if at % FOLDS != fold:
                uses.update(tools)
                for one in tools:
                    pairs.setdefault(one, Counter()).update(set(tools) - {one})
        for at, question in enumerate(labelled.questions):
            if at % FOLDS != fold:
                continue
            answer = await asked(search, question.text)
            five = [hit.key for hit in answer.hits[:5]]
            beside = {other for key in five for other in near.get(key, ())[:3]}
            batch = {
                other
                for key in five
                for other, count in pairs.get(key, Counter()).most_common(3)
                if count >= max(2, 0.3 * uses[key])
            }
            for name, keys in (
                ("hits", set(five)),
                ("alternatives", {*five, *beside}),
                ("batches", {*five, *batch}),
            ):
                rows[name].append(fmean(bool(group & keys) for group in question.groups))
    await search.aclose()
    return {name: round(fmean(found), 4) for name, found in rows.items()}


async def line(labelled: LabelledSet, strange: LabelledSet) -> dict[str, Any]:
    """False alarms and notices before and after marks on the other half of the requests."""
    search = await index(labelled, UsageWeights())
    judged: list[JudgedSearch] = []
    rest: list[tuple[str, bool]] = []
    for fits, questions in ((True, labelled.questions), (False, strange.questions)):
        for at, question in enumerate(questions[:400]):
            if at % 2:
                rest.append((question.text, fits))
                continue
            answer = await asked(search, question.text)
            margin = answer.queries[0].margin if answer.queries else None
            if margin is not None:
                judged.append(
                    JudgedSearch(margin=margin, fitted=fits, weight=1.0, model=answer.model)
                )
    found: dict[str, Any] = {"shift": {"margin": PersonalCutoff(judged).shift(judged[0].model)}}
    for name, learned in (("before", None), ("after", Learned({}, 0.0, PersonalCutoff(judged)))):
        answers = [(fits, await asked(search, text, learned=learned)) for text, fits in rest]
        weak = [
            (fits, answer.queries[0].fit == "none") for fits, answer in answers if answer.queries
        ]
        found[name] = {
            "false alarms": round(fmean(w for fits, w in weak if fits), 4),
            "notices": round(fmean(w for fits, w in weak if not fits), 4),
        }
    await search.aclose()
    return found


async def routed(labelled: LabelledSet) -> list[dict[str, Any]]:
    """How much of the first five, and of R@5, remains when only the nearest groups are searched."""
    search = await index(labelled, UsageWeights())
    groups = grouped(labelled.tools, search.vectors())
    plain = [await asked(search, question.text) for question in labelled.questions]
    found = []
    for most in (1, 2, 4, 8):
        kept, shares, recalls = [], [], []
        for question, answer in zip(labelled.questions, plain, strict=True):
            near = groups.nearest(answer.queries[0].vector, most)
            keys = frozenset().union(*(groups.keys[name] for name in near))
            mask = np.fromiter((key in keys for key in search.keys), np.bool_)
            few = await asked(search, question.text, mask=mask)
            five = {hit.key for hit in answer.hits[:5]}
            kept.append(len(five & keys) / max(1, len(five)))
            shares.append(float(mask.mean()))
            recalls.append(score_ranking([hit.key for hit in few.hits], question.groups)["R@5"])
        found.append(
            {
                "groups": len(groups.keys),
                "searched": most,
                "share of tools": round(fmean(shares), 3),
                "recall of the first five": round(fmean(kept), 3),
                "R@5": round(fmean(recalls), 3),
                "R@5 full": round(
                    fmean(
                        score_ranking([h.key for h in a.hits], q.groups)["R@5"]
                        for a, q in zip(plain, labelled.questions, strict=True)
                    ),
                    3,
                ),
            }
        )
    await search.aclose()
    return found


def measure(
    quick: bool,
    data: Path = DATA,
    sets: Sequence[str] = ("mcpverse",),
    others: Sequence[str] = (),
    parts: Sequence[str] = PARTS,
) -> Report:
    """Ask every set with and without what was learned, and return the table.

    Args:
        quick: Use few requests.
        data: Folder of the sets.
        sets: Names of sets.
        others: Sets whose tools are added to each.
        parts: What to measure, of `PARTS`.
    """
    most = 4 * FOLDS if quick else 1_000
    rows: list[dict[str, Any]] = []
    for name in sets:
        labelled = _with_servers(
            read_labelled(data / name, [data / other for other in others], limit=most)
        )
        if quick:
            labelled = shortened(labelled, most)
        for part, figures in _parts(labelled, _unrelated(data, name, most), parts):
            rows += [
                {"set": name, "part": part, "figure": figure, "value": value}
                for figure, value in figures.items()
            ]
    return Report(name="learning", title="What learning from use is worth", rows=rows)


def _with_servers(labelled: LabelledSet) -> LabelledSet:
    """The same set with keys that name the server, as those of a gateway do."""
    keys = {
        tool.key: f"{tool.server}:{tool.key}" if tool.server else tool.key
        for tool in labelled.tools
    }
    return replace(
        labelled,
        tools=tuple(replace(tool, key=keys[tool.key]) for tool in labelled.tools),
        questions=tuple(
            replace(
                question,
                groups=tuple(frozenset(keys[key] for key in group) for group in question.groups),
            )
            for question in labelled.questions
        ),
    )


def _unrelated(data: Path, name: str, most: int) -> LabelledSet:
    """A set whose requests no tool of the set `name` answers; that set itself if it is the only."""
    other = "mcpverse" if name == "metatool_multi" else "metatool_multi"
    return read_labelled(data / (other if (data / other).is_dir() else name), limit=most)


def _parts(
    labelled: LabelledSet, unrelated: LabelledSet, parts: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of each selected part."""
    if "folds" in parts:
        for log, figures in anyio.run(folds, labelled, UsageWeights()).items():
            yield f"log: {log}", figures
    if "halves" in parts:
        for log, figures in anyio.run(halves, labelled).items():
            yield f"half in the log: {log}", figures
    if "wrong" in parts:
        yield "log with wrong pairs, nDCG@10", anyio.run(wrong_pairs, labelled)
    if "recent" in parts:
        for weight in (0.02, 0.03, 0.05, 0.1):
            yield f"recent {weight}", anyio.run(recent, labelled, weight)
    if "company" in parts:
        yield "company", anyio.run(company, labelled)
    if "line" in parts:
        for when, figures in anyio.run(line, labelled, unrelated).items():
            yield f"line, {when}", figures
    if "groups" in parts:
        for figures in anyio.run(routed, labelled):
            yield f"{figures.pop('searched')} of {figures.pop('groups')} groups", figures


if __name__ == "__main__":
    parser = parser_of("learning")
    parser.add_argument("data", nargs="?", type=Path, default=DATA, metavar="DATA")
    parser.add_argument("--sets", default="mcpverse")
    parser.add_argument("--with", dest="others", default="", help="sets whose tools are added")
    parser.add_argument("--parts", default=",".join(PARTS))
    given = parser.parse_args()
    names, added, wanted = (
        [name for name in text.split(",") if name]
        for text in (given.sets, given.others, given.parts)
    )
    print_measured(given, lambda quick: measure(quick, given.data, names, added, wanted))
