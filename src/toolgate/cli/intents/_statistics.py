"""`toolgate detect --stats`: statistics of detected intents, with doubtful messages."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from toolgate.base.ids import utc_text
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.intents import _saved_runs
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_table
from toolgate.cli.terminal._sanitize import one_line
from toolgate.store import DetectionCount, DetectionFilter, StoredDetection, make_store
from toolgate.types import Json

_EXAMPLES: Final = 20
"""Examples shown of each kind (chosen)."""

_SEARCHED: Final = 2_000
"""Number of newest detections that are searched for examples (chosen)."""

_LOW_CONFIDENCE: Final = 0.6
"""Below this confidence a detection is listed as doubtful (chosen)."""


async def show(days: float, project: str | None, as_json: bool) -> int:
    """Print counts and doubtful messages of the last days."""
    settings = load_settings()
    store = make_store(store_url(settings))
    await store.open()
    try:
        await _saved_runs.move_to_store(store)
        since = utc_text(datetime.now(UTC) - timedelta(days=days))
        selection = DetectionFilter(project_id=project, since=since, limit=_SEARCHED)
        counts = await store.detections.counts(selection)
        detections = await store.detections.select(selection)
    finally:
        await store.close()
    answer = _stats(counts, detections, days=days, keeps_texts=settings.audit.keep_queries)
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    return SUCCESS if counts else NO_RESULT


def _stats(
    counts: Sequence[DetectionCount],
    detections: Sequence[StoredDetection],
    *,
    days: float,
    keeps_texts: bool,
) -> Json:
    answered = [row for row in counts if row.outcome in {"found", "unsure", "none"}]
    total = sum(row.count for row in answered)
    remembered = sum(row.remembered for row in answered)
    return {
        "days": days,
        "messages": total,
        "with_intent": sum(row.count for row in answered if row.intent),
        "cache_hit_rate": round(remembered / total, 4) if total else 0.0,
        "keeps_texts": keeps_texts,
        "stages": _by(answered, "stage"),
        "intents": _by((row for row in answered if row.intent), "intent"),
        "projects": [_project(name, answered) for name in _names(answered)],
        "low_confidence": _examples(
            detection
            for detection in detections
            if detection.outcome == "unsure"
            or (detection.outcome == "found" and detection.confidence < _LOW_CONFIDENCE)
        ),
        "near_misses": _examples(
            detection
            for detection in detections
            if detection.outcome == "none" and detection.near_intent
        ),
        "mistaken": _examples(
            detection for detection in detections if detection.outcome in {"outside", "arguments"}
        ),
    }


def _examples(detections: Iterable[StoredDetection]) -> list[Json]:
    """Return the newest examples; a repeated message is listed once, with a counter."""
    examples: dict[tuple[str, ...], Json] = {}
    for detection in detections:
        text = detection.message or detection.detection_id
        key = (
            detection.project_id,
            " ".join(text.casefold().split()),
            detection.outcome,
            detection.called or "",
        )
        if key in examples:
            examples[key]["times"] += 1
        elif len(examples) < _EXAMPLES:
            examples[key] = {**_example(detection), "times": 1}
    return list(examples.values())


def _by(counts: Iterable[DetectionCount], name: str) -> dict[str, int]:
    """Sum up counts by the values of a field, most frequent first."""
    counts_by_value: dict[str, int] = defaultdict(int)
    for row in counts:
        counts_by_value[getattr(row, name) or "none"] += row.count
    return dict(sorted(counts_by_value.items(), key=lambda item: (-item[1], item[0])))


def _names(counts: Iterable[DetectionCount]) -> list[str]:
    return sorted({row.project_id for row in counts})


def _project(name: str, counts: Sequence[DetectionCount]) -> Json:
    rows = [row for row in counts if row.project_id == name]
    total = sum(row.count for row in rows)
    return {
        "project": name,
        "messages": total,
        "with_intent": sum(row.count for row in rows if row.intent),
        "unsure": sum(row.count for row in rows if row.outcome == "unsure"),
        "cache_hit_rate": round(sum(row.remembered for row in rows) / total, 4) if total else 0.0,
    }


def _example(detection: StoredDetection) -> Json:
    return {
        "at": detection.at,
        "project": detection.project_id,
        "message": detection.message,
        "outcome": detection.outcome,
        "intent": detection.intent or None,
        "confidence": detection.confidence,
        "rival": detection.rival or None,
        "rival_confidence": detection.rival_confidence,
        "called": detection.called or None,
    }


def _print(answer: Json) -> None:
    if not answer["messages"] and not answer["mistaken"]:
        note(f"No messages in the last {answer['days']:g} days.")
        return
    print_table(
        ("Project", "Messages", "With an intent", "Unclear", "From cache"),
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
        "low_confidence": "Messages with low confidence",
        "near_misses": "Near misses: candidates for example prompts",
        "mistaken": "Messages after which another tool was called than that of the intent",
    }
    for kind, title in kinds.items():
        if answer[kind]:
            note(f"{title}:")
            print_table(
                ("Message", "Count", "Intent", "Confidence", "Runner-up", "Confidence", "Called"),
                [_row(row) for row in answer[kind]],
                wrap=0,
            )
    if not answer["keeps_texts"]:
        note("Message texts are not stored (audit.keep_queries).")


def _row(row: Json) -> list[str]:
    return [
        one_line(str(row["message"] or "(not stored)")),
        str(row["times"]),
        str(row["intent"] or "none"),
        f"{row['confidence']:.2f}",
        str(row["rival"] or ""),
        f"{row['rival_confidence']:.2f}" if row["rival"] else "",
        str(row["called"] or ""),
    ]
