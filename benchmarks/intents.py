"""How long it takes to tell what a message asks for, over the 83 messages of the acceptance rows.

    python -m benchmarks.intents [--quick] [--json]

Processor time of one process; each figure is the best of several rounds, since other programs only
ever add to it.
"""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks._report import Report, Target, main
from toolgate.intent import (
    Detector,
    Intent,
    Keywords,
    KeywordStage,
    Request,
    find_dates,
    load_intents,
    shipped,
)

ROWS = Path(__file__).parents[1] / "tests" / "intent" / "data" / "acceptance_detector.jsonl"
TODAY = date(2025, 10, 21)
MANY = 150
"""Intents of the row that shows that keywords of other intents cost nothing."""


def measure(quick: bool) -> Report:  # noqa: FBT001 - the one option of every benchmark
    """Time each step over all messages."""
    rounds = 5 if quick else 25
    messages = [
        str(json.loads(line)["input"]) for line in ROWS.read_text(encoding="utf-8").splitlines()
    ]
    intents = load_intents(shipped("schema"))
    stage, detector = KeywordStage(intents), Detector(intents)
    many = KeywordStage([*intents, *(other(number) for number in range(MANY - len(intents)))])
    english = [Request(text=each, today=TODAY, languages=("en",)) for each in messages]
    all_languages = [Request(text=each, today=TODAY) for each in messages]
    long = Request(text=" ".join(messages) * (100_000 // len(" ".join(messages))), today=TODAY)
    steps: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
        "keywords, English": (stage.match, english),
        "keywords, four languages": (stage.match, all_languages),
        f"keywords, {MANY} intents": (many.match, all_languages),
        "dates": (lambda text: find_dates(text, today=TODAY), messages),
        "keywords and arguments": (lambda text: detector.detect(text, today=TODAY), messages),
        "keywords, a message of 100 kB": (stage.match, [long]),
    }
    times = {name: timed(step, given, rounds) for name, (step, given) in steps.items()}
    rows: list[dict[str, Any]] = [
        {
            "step": name,
            "mean": round(sum(each) / len(each), 1),
            "slowest message": round(max(each), 1),
        }
        for name, each in times.items()
    ]
    means = {row["step"]: row["mean"] for row in rows}
    most = {row["step"]: row["slowest message"] for row in rows}
    return Report(
        name="intents",
        title="microseconds of processor time for a message",
        rows=rows,
        targets=(
            Target(
                what="µs a message, keywords", measured=means["keywords, four languages"], limit=50
            ),
            Target(
                what="µs a message, with arguments, the slowest",
                measured=most["keywords and arguments"],
                limit=1000,
            ),
        ),
    )


def other(number: int) -> Intent:
    """An intent of another pack, with as many keywords as one of the pack `schema`."""
    words = tuple(f"thing{number} word{at}" for at in range(15))
    keywords = Keywords(exact=words, partial=(f"thing{number}",), context=("show",))
    return Intent(name=f"other-{number}", keywords={"en": keywords})


def timed(step: Callable[[Any], object], given: list[Any], rounds: int) -> list[float]:
    """Best time of each given thing, in microseconds."""
    best = [float("inf")] * len(given)
    for _ in range(rounds):
        for at, each in enumerate(given):
            before = process_time()
            step(each)
            best[at] = min(best[at], process_time() - before)
    return [time * 1e6 for time in best]


if __name__ == "__main__":
    main("intents", measure)
