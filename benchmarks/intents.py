"""Measures how long it takes to recognise an intent, and to answer `processPrompt`.

    python -m benchmarks.intents [--quick] [--json]

Keywords and arguments: the 83 messages of the acceptance rows. Example prompts: 150 made-up intents
with 100 prompts each, and similar messages that equal none of them. Rules: the pack `servoy`, with
messages that were not sent before; once with the bundled embedder, once with an ONNX model as large
as bge-small with random weights. REST: a gateway in its own process.

CPU time of one process; the figure for a message is the best of several rounds, since other
programs only ever add to it.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import aiohttp

from benchmarks._bert import LAYERS, bge_small_sized
from benchmarks._load import own_cpu_s
from benchmarks._report import Report, Target, main
from benchmarks._servers import gateway
from toolgate.base.plugins import make
from toolgate.intents import (
    Intent,
    IntentDetector,
    Keywords,
    KeywordStage,
    SemanticStage,
    StageRequest,
    builtin_pack_folder,
    find_dates,
)
from toolgate.models.embedders import Embedder, embedded
from toolgate.packs import load_pack
from toolgate.settings import PackSettings, SearchSettings, Settings
from toolgate.testing.memory import memory_app
from toolgate.types import Caller, PluginSpec

DATA = Path(__file__).parents[1] / "tests" / "intents" / "data"
ROWS = DATA / "acceptance_detector.jsonl"
TEXTS = DATA / "clinc12.jsonl"
TODAY = date(2025, 10, 21)
MANY = 150
"""Number of intents of the rows about large packs."""

PROMPTS = 100
"""Example prompts of each intent."""


def measure(quick: bool) -> Report:
    """Time each step over all messages."""
    rounds = 1 if quick else 25
    rows = _keyword_rows(rounds)
    intents, prompts = (MANY // 10, PROMPTS // 50) if quick else (MANY, PROMPTS)
    learned, fit_s = asyncio.run(_learned(intents, prompts, rounds=3 if quick else 200))
    prompt = asyncio.run(_process_prompt(10 if quick else 300, SearchSettings(), "bundled"))
    with tempfile.TemporaryDirectory() as folder:
        large = str(bge_small_sized(Path(folder) / "bge-small-sized", 1 if quick else LAYERS))
        search = SearchSettings(embedder="onnx", embedder_options={"folder": large})
        onnx = asyncio.run(_process_prompt(5 if quick else 100, search, "onnx"))
    rows += [*learned, *prompt, *onnx, *asyncio.run(_rest(quick))]
    mean = {row["step"]: row["mean"] for row in rows}
    most = {row["step"]: row["slowest message"] for row in rows}
    p50 = {row["step"]: row["p50"] for row in rows}
    rest = next(row for row in rows if row["step"].startswith("REST, one"))
    return Report(
        name="intents",
        title="microseconds of processor time for a message",
        rows=rows,
        targets=(
            Target(
                what="µs a message, keywords", measured=mean["keywords, four languages"], limit=50
            ),
            Target(
                what="µs a message, with arguments, the slowest",
                measured=most["keywords and arguments"],
                limit=1000,
            ),
            Target(
                what="ms a message, p50, whole detection",
                measured=round(p50[learned[0]["step"]] / 1000, 2),
                limit=2,
            ),
            Target(what="s to learn the prompts of these", measured=round(fit_s, 1), limit=30),
            Target(
                what="ms p50, processPrompt end to end",
                measured=round(p50[prompt[0]["step"]] / 1000, 2),
                limit=5,
            ),
            Target(
                what="ms p50, the same with an onnx model as large as bge-small",
                measured=round(p50[onnx[0]["step"]] / 1000, 2),
                limit=100,
            ),
            Target(
                what="keyword detections a second over REST on one core, each a request",
                measured=round(1e6 / rest["mean"]),
                limit=1000,
                at_least=True,
            ),
        ),
        notes=(
            f"Learning {intents} intents with {prompts} prompts each took {fit_s:.1f} s"
            " of processor time.",
        ),
    )


def _keyword_rows(rounds: int) -> list[dict[str, Any]]:
    messages = [
        str(json.loads(line)["input"]) for line in ROWS.read_text(encoding="utf-8").splitlines()
    ]
    intents = load_pack(builtin_pack_folder("schema")).intents
    stage, detector = KeywordStage(intents), IntentDetector(intents)
    many = KeywordStage([*intents, *(other(number) for number in range(MANY - len(intents)))])
    english = [StageRequest(text=each, today=TODAY, languages=("en",)) for each in messages]
    all_languages = [StageRequest(text=each, today=TODAY) for each in messages]
    long = StageRequest(text=" ".join(messages) * (100_000 // len(" ".join(messages))), today=TODAY)
    steps: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
        "keywords, English": (stage.match, english),
        "keywords, four languages": (stage.match, all_languages),
        f"keywords, {MANY} intents": (many.match, all_languages),
        "dates": (lambda text: find_dates(text, today=TODAY), messages),
        "keywords and arguments": (lambda text: detector.detect(text, today=TODAY), messages),
        "keywords, a message of 100 kB": (stage.match, [long]),
    }
    return [_row(name, timed(step, given, rounds)) for name, (step, given) in steps.items()]


def _row(step: str, times_us: Sequence[float]) -> dict[str, Any]:
    return {
        "step": step,
        "p50": round(median(times_us), 1),
        "mean": round(sum(times_us) / len(times_us), 1),
        "slowest message": round(max(times_us), 1),
    }


def other(number: int) -> Intent:
    """An intent of another pack, with as many keywords as one of the pack `schema`."""
    words = tuple(f"thing{number} word{at}" for at in range(15))
    keywords = Keywords(exact=words, partial=(f"thing{number}",), context=("show",))
    return Intent(name=f"other-{number}", keywords={"en": keywords})


def timed(step: Callable[[Any], object], given: list[Any], rounds: int) -> list[float]:
    """Best time for each item, in microseconds."""
    best = [float("inf")] * len(given)
    for _ in range(rounds):
        for at, each in enumerate(given):
            before = process_time()
            step(each)
            best[at] = min(best[at], process_time() - before)
    return [time * 1e6 for time in best]


# Example prompts


def made_up(intents: int, prompts: int, *, seed: int) -> list[Intent]:
    """Intents with so many prompts: ordinary sentences, with words that only one intent has."""
    sentences = [
        str(row["text"]).split()
        for row in map(json.loads, TEXTS.read_text(encoding="utf-8").splitlines())
    ]
    words = sorted({word for sentence in sentences for word in sentence if len(word) > 3})
    fixed, free = random.Random(0), random.Random(seed)
    made: list[Intent] = []
    for number in range(intents):
        own = [*fixed.sample(words, 4), f"topic{number}"]
        lines: dict[str, None] = {}
        while len(lines) < prompts:
            sentence = list(free.choice(sentences))
            for word in free.sample(own, 2):
                sentence.insert(free.randrange(len(sentence) + 1), word)
            lines[" ".join(sentence)] = None
        made.append(Intent(name=f"intent-{number}", prompts={"en": tuple(lines)}))
    return made


async def _learned(
    intents: int, prompts: int, *, rounds: int
) -> tuple[list[dict[str, Any]], float]:
    embedder = make("embedder", Embedder, PluginSpec(name="bundled", setting="search.embedder"), {})
    stage = SemanticStage(embedder=embedder)
    began = process_time()
    await stage.update(made_up(intents, prompts, seed=1))
    fit_s = process_time() - began
    asked = [line for one in made_up(intents, 2, seed=2) for line in one.prompts["en"]][:rounds]
    name = f"whole detection, {intents} intents with {prompts} prompts each"

    async def judge(text: str) -> None:
        await stage.classify(StageRequest(text=text, today=TODAY))

    rows = [_row(name, [await _process_us(judge, text) for text in asked])]
    rows.append(_row(f"{name}, asked again", [await _process_us(judge, text) for text in asked]))
    return rows, fit_s


# Rules


async def _process_prompt(
    calls: int, search: SearchSettings, embedder: str
) -> list[dict[str, Any]]:
    """Time `processPrompt` with the pack `servoy`, and its parts."""
    settings = Settings(search=search, packs=PackSettings(enable=("servoy",)))
    async with memory_app({}, settings) as app:
        await app.recognizer.wait_until_trained()
        texts = list(_varied(app.packs.current.packs, 3 * calls))
        has_rules: list[bool] = []

        async def call(text: str) -> None:
            params = {"name": "processPrompt", "arguments": {"prompt": text}}
            result = await app.gateway.call(Caller.local(), params, None)
            has_rules.append("USER REQUEST" in str(result))

        async def vector(text: str) -> None:
            used = app.recognizer.semantic_stage.embedder
            assert used is not None
            await embedded(used, [text], "query")

        await call(texts[0])
        whole = [await _process_us(call, text) for text in texts[:calls]]
        whole = [spent for spent, given in zip(whole, has_rules[1:], strict=True) if given]
        intent = [await _process_us(app.recognizer.detect, text) for text in texts[calls:-calls]]
        vectors = [await _process_us(vector, text) for text in texts[-calls:]]
    name = f"processPrompt, {embedder}"
    return [
        _row(f"{name}, pack servoy, {len(whole)} with rules", whole),
        _row(f"{name}: the vector", vectors),
        _row(f"{name}: the intent without it", [median(intent) - median(vectors)]),
        _row(f"{name}: rules, variables, tools, audit", [median(whole) - median(intent)]),
    ]


async def _process_us(work: Callable[[str], Awaitable[object]], text: str) -> float:
    began = process_time()
    await work(text)
    return (process_time() - began) * 1e6


def _varied(packs: Iterable[Any], count: int) -> Iterable[str]:
    """Prompts of the packs, each with an added word, so that none is cached."""
    lines = [
        line
        for pack in packs
        if pack.name == "servoy"
        for intent in pack.intents
        for line in intent.prompts.get("", next(iter(intent.prompts.values()), ()))
    ]
    return [f"{lines[at % len(lines)]} number {at}" for at in range(count)]


# REST


async def _rest(quick: bool) -> list[dict[str, Any]]:
    """Run a gateway process; send one message per request, then a hundred."""
    messages = 100 if quick else 3_000
    texts = [
        str(json.loads(line)["input"]) for line in ROWS.read_text(encoding="utf-8").splitlines()
    ]
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        gateway(Path(folder) / "gateway", {}, {}) as running,
    ):
        address = f"{running.url.removesuffix('/mcp')}/api/v1/detect"
        async with aiohttp.ClientSession() as http:
            if not quick:
                # Answers only once the example prompts are learned, seconds after a start.
                await _posted(http, address, [{"message": "anything", "stage": "semantic"}])
            for at_once, name in ((1, "one message a request"), (100, "100 messages a request")):
                bodies = [
                    {
                        "messages": [texts[(at + k) % len(texts)] for k in range(at_once)],
                        "stage": "keyword",
                    }
                    for at in range(0, messages, at_once)
                ]
                await _posted(http, address, bodies[:20])
                before = own_cpu_s(running.run.pid)
                await _posted(http, address, bodies)
                spent_us = (own_cpu_s(running.run.pid) - before) * 1e6 / (len(bodies) * at_once)
                rows.append(_row(f"REST, {name}, keywords and arguments", [spent_us]))
    return rows


async def _posted(http: aiohttp.ClientSession, address: str, bodies: list[dict[str, Any]]) -> None:
    """Send requests, eight at a time."""
    waiting = iter(bodies)

    async def work() -> None:
        for body in waiting:
            async with http.post(address, json=body) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()

    await asyncio.gather(*(work() for _ in range(8)))


if __name__ == "__main__":
    main("intents", measure)
