"""Measures intent recognition on fresh messages, with 0, 1 and 5 user packs installed.

    python -m benchmarks.intent_messages [--quick] [--json]

The messages are in eight languages. Nothing was fitted to the first set, the halves `report` of
`data/intent_messages_b.jsonl` and `data/intent_messages_e.jsonl`; the errors among their other
halves, and in the half `report` of `data/intent_messages_d.jsonl`, were looked at. Nothing was
fitted to `data/intent_messages_g.jsonl`; the errors among its half `fit` were looked at. Nothing
was fitted to `data/intent_messages_h.jsonl` and `data/intent_messages_j.jsonl` either, whose errors
were not looked at. The half `fit` of `data/intent_messages_i.jsonl` became prompts and
counterexamples; how many of the other half were wrong was seen while features were chosen.
The packs are `schema` (as with a database) and `servoy`, with the bundled embedder, and the first
ones of `data/own_packs.json`.

Right: exactly the intents that the writer meant, or none. False alarm: an intent for a message that
has none. ECE: expected calibration error of the best candidate's confidence, over all messages in
ten bins.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks._report import Report, Target, main
from toolgate.base.plugins import make
from toolgate.intents import NONE, Detection, Intent, Recognizer, builtin_pack_folder
from toolgate.models.embedders import Embedder
from toolgate.packs import intent_set_of, load_pack
from toolgate.types import PluginSpec

DATA = Path(__file__).parent / "data"
SHIPPED = ("schema", "servoy")


def measure(quick: bool) -> Report:
    """Judge the messages with more and more packs; `quick`: few messages, no own packs."""
    rows = asyncio.run(_rows(50, (0,)) if quick else _rows(1, (0, 1, 5)))
    return Report(
        name="intent_messages",
        title="fresh messages in eight languages, beside a user's own packs",
        rows=rows,
        targets=(
            Target(
                what="% right, no pack of one's own",
                measured=rows[0]["right"],
                limit=93,
                at_least=True,
            ),
            Target(
                what="% false alarms, no pack of one's own",
                measured=rows[0]["false alarms"],
                limit=6,
            ),
            Target(what="calibration error", measured=rows[0]["ECE"], limit=0.05),
        ),
    )


async def _rows(step: int, own_packs: Sequence[int]) -> list[dict[str, Any]]:
    """Judge every message in `step` of each set, beside so many packs of a user."""
    unseen = [*_messages("b", "report"), *_messages("e", "report")]
    sets = {
        f"{name}, {split}": messages
        for name in "bedghij"
        for split in ("fit", "report")
        if (messages := _messages(name, split))
    }
    rows: list[dict[str, Any]] = []
    for own in own_packs:
        recognizer = await _trained(own)
        for of, messages in {"unseen": unseen, **({} if own else sets)}.items():
            rows.append(await _judged(recognizer, of, messages[::step], own))
        await recognizer.aclose()
    return rows


def _messages(name: str, split: str) -> list[dict[str, Any]]:
    lines = (DATA / f"intent_messages_{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [message for line in lines if (message := json.loads(line))["split"] == split]


async def _trained(own: int) -> Recognizer:
    """A recognizer with the shipped packs and so many of a user's own."""
    spec = PluginSpec(name="bundled", setting="search.embedder")
    recognizer = Recognizer(embedder=make("embedder", Embedder, spec, {}))
    shipped = intent_set_of([load_pack(builtin_pack_folder(name)) for name in SHIPPED])
    packs = json.loads((DATA / "own_packs.json").read_text(encoding="utf-8"))
    added = [
        Intent(name=name, prompts={"en": tuple(prompts)}, pack=pack)
        for pack, intents in list(packs.items())[:own]
        for name, prompts in intents.items()
    ]
    recognizer.replace_intents(replace(shipped, intents=(*shipped.intents, *added)))
    await recognizer.wait_until_trained()
    return recognizer


async def _judged(
    recognizer: Recognizer, of: str, messages: list[dict[str, Any]], own: int
) -> dict[str, Any]:
    right = alarms = without = 0
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for message in messages:
        meant = message["intent"] or []
        meant = sorted([meant] if isinstance(meant, str) else meant)
        detection = await recognizer.detect(message["text"], today=date(2026, 11, 25))
        answered = [] if detection.intent == NONE else list(detection.intents or [detection.intent])
        right += sorted(name.lower() for name in answered) == meant
        without += not meant
        alarms += not meant and bool(answered)
        name, confidence = _best(detection)
        bins[min(int(confidence * 10), 9)].append((confidence, name.lower() in meant))
    gaps = [abs(sum(sure - good for sure, good in pairs)) for pairs in bins.values()]
    return {
        "set": of,
        "own packs": own,
        "messages": len(messages),
        "right": round(100 * right / len(messages), 1),
        "false alarms": round(100 * alarms / max(without, 1), 1),
        "ECE": round(sum(gaps) / len(messages), 3),
    }


def _best(detection: Detection) -> tuple[str, float]:
    if detection.intent != NONE:
        return detection.intent, detection.confidence
    best = max(detection.candidates, key=lambda candidate: candidate.confidence, default=None)
    return (best.intent, best.confidence) if best is not None else ("", 0.0)


if __name__ == "__main__":
    main("intent_messages", measure)
