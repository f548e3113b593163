"""`toolgate detect --stats`: what messages were taken for, and which ones were not understood."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from toolgate.base.ids import utc_text
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.intents import _saved_runs
from toolgate.cli.terminal._exit import FINE, NOTHING
from toolgate.cli.terminal._output import note, print_json, print_table
from toolgate.cli.terminal._sanitize import one_line
from toolgate.store import DetectionCount, DetectionFilter, StoredDetection, make_store
from toolgate.types import Json

__all__ = ["show"]

_LISTED: Final = 20
"""Messages of a kind that are shown."""

_LOOKED_AT: Final = 2_000
"""The last ones among which they are looked for."""

_LOW: Final = 0.6
"""Below this confidence an answer is one to look at, besides those that had to ask back."""

_NEAR: Final = 0.1
"""From this confidence on, an intent that was not chosen was near."""


async def show(days: float, project: str | None, as_json: bool) -> int:
    """Show counts and doubtful messages of the last days."""
    settings = load_settings()
    store = make_store(store_url(settings))
    await store.open()
    try:
        await _saved_runs.take(store)
        since = utc_text(datetime.now(UTC) - timedelta(days=days))
        wanted = DetectionFilter(project_id=project, since=since, limit=_LOOKED_AT)
        counts = await store.detection_counts(wanted)
        found = await store.detections(wanted)
    finally:
        await store.close()
    answer = _stats(counts, found, days=days, kept=settings.audit.keep_queries)
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    return FINE if counts else NOTHING


def _stats(
    counts: Sequence[DetectionCount], found: Sequence[StoredDetection], *, days: float, kept: bool
) -> Json:
    asked = [each for each in counts if each.outcome in {"found", "unsure", "none"}]
    total = sum(each.count for each in asked)
    remembered = sum(each.remembered for each in asked)
    return {
        "days": days,
        "messages": total,
        "with_intent": sum(each.count for each in asked if each.intent),
        "cache_hit_rate": round(remembered / total, 4) if total else 0.0,
        "keeps_texts": kept,
        "stages": _by(asked, "stage"),
        "intents": _by((each for each in asked if each.intent), "intent"),
        "projects": [_project(name, asked) for name in _names(asked)],
        "low_confidence": _each_once(
            each
            for each in found
            if each.outcome == "unsure" or (each.outcome == "found" and each.confidence < _LOW)
        ),
        "near_misses": _each_once(
            each
            for each in found
            if each.outcome == "none" and each.rival and each.rival_confidence >= _NEAR
        ),
        "mistaken": _each_once(each for each in found if each.outcome in {"outside", "arguments"}),
    }


def _each_once(found: Iterable[StoredDetection]) -> list[Json]:
    """The last ones; a message that came several times stands there once, as it was last."""
    shown: dict[tuple[str, ...], Json] = {}
    for each in found:
        text = each.message or each.detection_id
        key = (each.project_id, " ".join(text.casefold().split()), each.outcome, each.called or "")
        if key in shown:
            shown[key]["times"] += 1
        elif len(shown) < _LISTED:
            shown[key] = {**_shown(each), "times": 1}
    return list(shown.values())


def _by(counts: Iterable[DetectionCount], name: str) -> dict[str, int]:
    """How many there are by one of their fields, the most frequent first."""
    found: dict[str, int] = defaultdict(int)
    for each in counts:
        found[getattr(each, name) or "none"] += each.count
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


def _names(counts: Iterable[DetectionCount]) -> list[str]:
    return sorted({each.project_id for each in counts})


def _project(name: str, counts: Sequence[DetectionCount]) -> Json:
    own = [each for each in counts if each.project_id == name]
    total = sum(each.count for each in own)
    return {
        "project": name,
        "messages": total,
        "with_intent": sum(each.count for each in own if each.intent),
        "unsure": sum(each.count for each in own if each.outcome == "unsure"),
        "cache_hit_rate": round(sum(each.remembered for each in own) / total, 4) if total else 0.0,
    }


def _shown(each: StoredDetection) -> Json:
    return {
        "at": each.at,
        "project": each.project_id,
        "message": each.message,
        "outcome": each.outcome,
        "intent": each.intent or None,
        "confidence": each.confidence,
        "rival": each.rival or None,
        "rival_confidence": each.rival_confidence,
        "called": each.called or None,
    }


def _print(answer: Json) -> None:
    if not answer["messages"] and not answer["mistaken"]:
        note(f"No message was looked at in the last {answer['days']:g} days.")
        return
    print_table(
        ("Project", "Messages", "With an intent", "Asked back", "Known from before"),
        [
            [
                str(row["project"]),
                str(row["messages"]),
                str(row["with_intent"]),
                str(row["unsure"]),
                f"{row['cache_hit_rate']:.0%}",
            ]
            for row in answer["projects"]
        ],
    )
    print_table(
        ("Intent", "Messages"), [[name, str(count)] for name, count in answer["intents"].items()]
    )
    kinds = {
        "low_confidence": "Messages that were hard to tell",
        "near_misses": "Messages turned away that were near to an intent: candidates for prompts",
        "mistaken": "Messages whose intent did not go with what was called then",
    }
    for kind, title in kinds.items():
        if answer[kind]:
            note(f"{title}:")
            print_table(
                ("Message", "Times", "Intent", "Sure", "Next", "Sure", "Called"),
                [_row(row) for row in answer[kind]],
                wrap=0,
            )
    if not answer["keeps_texts"]:
        note("Texts of messages are not kept (audit.keep_queries).")


def _row(row: Json) -> list[str]:
    return [
        one_line(str(row["message"] or "(not kept)")),
        str(row["times"]),
        str(row["intent"] or "none"),
        f"{row['confidence']:.2f}",
        str(row["rival"] or ""),
        f"{row['rival_confidence']:.2f}" if row["rival"] else "",
        str(row["called"] or ""),
    ]
