"""Measures intent recognition with packs of ordinary people: six prompts per intent.

    python -m benchmarks.small_packs [--quick] [--json]

A hundred packs, each alone with the bundled embedder, and the messages of people who had not seen
its prompts (`data/small_packs.jsonl`). Nothing was fitted to the messages of the half `report`,
whose errors were not looked at; rules were written after a look at those of the other half.

Right: exactly the intent that the writer meant, or none. A near miss uses the words of an intent
and asks for nothing of the kind: it tells of something that is settled, or of other people.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._report import Report, Target, main
from toolgate.base.plugins import make
from toolgate.intents import NONE, Intent, IntentSet, Recognizer
from toolgate.models.embedders import Embedder
from toolgate.types import PluginSpec

DATA = Path(__file__).parent / "data/small_packs.jsonl"
QUICK_EVERY = 25
"""The quick form takes every so many packs."""


class Answered(NamedTuple):
    """A message, and what was detected."""

    intent: str | None
    is_near_miss: bool
    detected: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether exactly the intent that was meant was detected."""
        return self.detected == (() if self.intent is None else (self.intent,))


def measure(quick: bool) -> Report:
    """Judge the messages of each pack."""
    packs = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    answers = asyncio.run(_answers(packs[:: QUICK_EVERY if quick else 1]))
    rows = [{"half": half, **_figures(of_half)} for half, of_half in answers.items()]
    report = next(row for row in rows if row["half"] == "report")
    return Report(
        name="small_packs",
        title="packs with six prompts per intent, and messages of people who did not see them",
        rows=rows,
        targets=(
            Target(what="% right", measured=report["right"], limit=93, at_least=True),
            Target(what="% false alarms", measured=report["false alarms"], limit=8),
        ),
    )


async def _answers(packs: Sequence[Mapping[str, Any]]) -> dict[str, list[Answered]]:
    spec = PluginSpec(name="bundled", setting="search.embedder")
    embedder = make("embedder", Embedder, spec, {})
    answers: dict[str, list[Answered]] = {}
    for pack in packs:
        intents = [
            Intent(name=name, prompts={pack["language"]: tuple(prompts)}, pack=pack["pack"])
            for name, prompts in pack["intents"].items()
        ]
        recognizer = Recognizer(embedder=embedder)
        recognizer.replace_intents(IntentSet(intents=tuple(intents)))
        await recognizer.wait_until_trained()
        for message in pack["messages"]:
            detection = await recognizer.detect(message["text"], today=date(2026, 11, 28))
            detected = detection.intents or (detection.intent,)
            answers.setdefault(pack["split"], []).append(
                Answered(
                    intent=message["intent"],
                    is_near_miss=message.get("near", False),
                    detected=() if detection.intent == NONE else tuple(detected),
                )
            )
        await recognizer.aclose()
    return answers


def _figures(answers: Sequence[Answered]) -> dict[str, Any]:
    requests = [answer for answer in answers if answer.intent is not None]
    others = [answer for answer in answers if answer.intent is None]
    near = [answer for answer in others if answer.is_near_miss]
    unrelated = [answer for answer in others if not answer.is_near_miss]
    return {
        "messages": len(answers),
        "right": _percent(answer.is_right for answer in answers),
        "requests right": _percent(answer.is_right for answer in requests),
        "requests rejected": _percent(not answer.detected for answer in requests),
        "false alarms": _percent(bool(answer.detected) for answer in others),
        "of unrelated": _percent(bool(answer.detected) for answer in unrelated),
        "of near misses": _percent(bool(answer.detected) for answer in near),
    }


def _percent(values: Iterable[bool]) -> float:
    known = list(values)
    return round(100 * sum(known) / max(len(known), 1), 1)


if __name__ == "__main__":
    main("small_packs", measure)
