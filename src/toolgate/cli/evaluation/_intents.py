"""`toolgate eval intents`: measure how well a pack classifies messages."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Annotated, Any

import anyio
import numpy as np
import typer
from numpy.typing import NDArray

from toolgate.base.plugins import make
from toolgate.cli.evaluation._save_results import save_metrics
from toolgate.cli.terminal._command_app import AsJson
from toolgate.cli.terminal._context import shared_options
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import print_json, print_table, print_text
from toolgate.errors import ArgumentError, PackError
from toolgate.intents import (
    DetectionLimits,
    Prediction,
    SemanticModel,
    SemanticStage,
    read_intents,
)
from toolgate.models.embedders import Embedder, embedded
from toolgate.settings import load
from toolgate.types import PluginSpec, json_object

_SHARES = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)


def intents(
    pack: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the pack.")],
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='File with messages, one JSON object per line: {"id", "text"}.'
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the predictions to FILE, one line of JSON per message."
        ),
    ] = None,
    embedder: Annotated[
        str,
        typer.Option(metavar="NAME", help="Use this embedder; `none` for n-grams only."),
    ] = "",
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep", help="Show false alarms and wrong answers for a range of thresholds."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Train the classifier on a pack's example prompts, and measure its accuracy.

    Every prompt is classified by a model that was trained without it. Accuracy, false alarms and
    calibration error are based on these results. Messages whose line contains "intent" are scored
    too; null means no intent. In the predictions, "confidence" is the probability that the first of
    "top" is right, even if "intent" is null.
    """
    lines = _read(queries) if queries is not None else []
    evaluation = anyio.run(_measure, pack, embedder, lines)
    if predictions is not None:
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in evaluation.rows)
        predictions.write_text(text, encoding="utf-8")
    answer = evaluation.summary()
    save_metrics("intents", [_metrics_to_save(pack, answer)])
    if sweep:
        answer["sweep"] = evaluation.sweep()
    if as_json:
        print_json(answer)
    else:
        _show(answer)
    return SUCCESS if evaluation.rows or queries is None else NO_RESULT


def _metrics_to_save(pack: Path, answer: dict[str, Any]) -> tuple[str, str, int, dict[str, float]]:
    """Return the metrics to save: of the messages if they are labelled, else of the prompts."""
    has_messages = "labelled" in answer
    scored = answer["labelled"] if has_messages else answer["prompts_held_out"]
    requests = answer["messages"] if has_messages else answer["prompts"]
    by = "messages" if has_messages else "prompts, each held out"
    return pack.resolve().name, by, requests, scored


class _Evaluation:
    """Predictions of a trained model, and metrics about them."""

    def __init__(self, model: SemanticModel, limits: DetectionLimits, fit_s: float) -> None:
        self.model, self.limits, self.fit_s = model, limits, fit_s
        self.rows: list[dict[str, Any]] = []
        self.expected: list[tuple[bool, str]] = []
        self.spent_ms: list[float] = []

    def add(self, line: dict[str, Any], prediction: Prediction, spent_ms: float) -> None:
        """Add the prediction for a message."""
        top = [[name, round(share, 6)] for name, share in prediction.ranked if name]
        self.rows.append(
            {
                "id": line["id"],
                "intent": prediction.intent if prediction.accepted else None,
                "confidence": round(prediction.confidence if prediction.intent else 0.0, 6),
                "top": top,
            }
        )
        self.expected.append(("intent" in line, _normalize(line.get("intent"))))
        self.spent_ms.append(spent_ms)

    def summary(self) -> dict[str, Any]:
        """Return the metrics, as shares of 1."""
        model = self.model
        owners = np.asarray(model.training_set.owners)[model.counted]
        right = model.held_owners == owners
        confidence = model.held_confidences
        cut = model.cut(self.limits)
        taken = confidence >= cut
        answer: dict[str, Any] = {
            "intents": sum(1 for name in model.training_set.intents if name),
            "prompts": len(model.training_set.texts),
            "fit_s": round(self.fit_s, 2),
            "cut": round(cut, 4),
            "prompts_held_out": {
                "accuracy": _mean(right & taken),
                "accuracy_before_cut": _mean(right),
                "false_alarms": _mean(~taken),
                "calibration_error": _calibration_error(confidence, right),
            },
        }
        if self.rows:
            answer["messages"] = len(self.rows)
            answer["ms_p50"] = round(median(self.spent_ms), 3)
            answer["answered"] = _mean(np.array([row["intent"] is not None for row in self.rows]))
        if any(is_labelled for is_labelled, _ in self.expected):
            answer["labelled"] = self._scored(None)
        return answer

    def sweep(self) -> list[dict[str, Any]]:
        """Return both error rates per threshold: rejected good messages, and wrong answers."""
        confidence = self.model.held_confidences
        owners = np.asarray(self.model.training_set.owners)[self.model.counted]
        right = self.model.held_owners == owners
        labelled = any(is_labelled for is_labelled, _ in self.expected)
        rows: list[dict[str, Any]] = []
        for share, cut in self.model.sweep(_SHARES):
            taken = confidence >= cut
            row = {
                "false_alarms_wanted": share,
                "cut": round(cut, 4),
                "false_alarms": _mean(~taken),
                "wrong_answers": _mean(taken & ~right),
            }
            rows.append({**row, **({"labelled": self._scored(cut)} if labelled else {})})
        return rows

    def _scored(self, cut: float | None) -> dict[str, Any]:
        """Return metrics of the labelled messages, with the given or the model's threshold."""
        inside: list[tuple[bool, bool]] = []
        outside: list[bool] = []
        for row, (is_labelled, name) in zip(self.rows, self.expected, strict=True):
            if not is_labelled:
                continue
            best = _normalize(row["top"][0][0]) if row["top"] else ""
            is_answered = row["intent"] is not None if cut is None else row["confidence"] >= cut
            if name:
                inside.append((best == name, is_answered))
            else:
                outside.append(is_answered)
        scored: dict[str, Any] = {}
        if inside:
            scored["accuracy"] = _mean(
                np.array([good and is_answered for good, is_answered in inside])
            )
            scored["accuracy_before_cut"] = _mean(np.array([good for good, _ in inside]))
            scored["false_alarms"] = _mean(np.array([not is_answered for _, is_answered in inside]))
        if outside:
            scored["out_of_scope_recall"] = _mean(
                np.array([not is_answered for is_answered in outside])
            )
        return scored


async def _measure(pack: Path, name: str, lines: Sequence[dict[str, Any]]) -> _Evaluation:
    read = read_intents(pack)
    if not any(intent.prompts for intent in read.intents):
        raise PackError(
            f"{pack} has no file with example prompts.",
            allowed="Each intent has a file intents/NAME.txt with one prompt a line.",
            hint="Add one, or correct embeddings.list.",
        )
    embedder = _embedder(name)
    stage = SemanticStage(embedder=embedder)
    began = perf_counter()
    await stage.update(
        read.intents,
        unsupported=read.unsupported,
        limits=read.limits,
        own_limits=read.own_limits,
    )
    model = stage.model
    assert model is not None
    evaluation = _Evaluation(model, read.limits, perf_counter() - began)
    for line in lines:
        worked = process_time()
        vector = None
        if embedder is not None:
            vector = (await embedded(embedder, [line["text"]], "query"))[0]
        prediction = model.predict(
            line["text"], vector, limits=read.limits, own_limits=read.own_limits
        )
        evaluation.add(line, prediction, (process_time() - worked) * 1000)
    return evaluation


def _embedder(name: str) -> Embedder | None:
    settings = load(shared_options().config, shared_options().imports).search
    if name == "none":
        return None
    same = not name or name == settings.embedder
    spec = PluginSpec(
        name=name or settings.embedder,
        setting="search.embedder",
        options=settings.embedder_options if same else {},
        options_at="search.embedder_options",
    )
    return make("embedder", Embedder, spec, {})


def _read(path: Path) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(
            f"{path} cannot be read: {error}.", hint="Give a file with one JSON object a line."
        ) from error
    for number, raw in enumerate(text.splitlines(), 1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
        except ValueError as error:
            raise _wrong_line(path, number, "not JSON") from error
        line = json_object(line)
        if "id" not in line:
            raise _wrong_line(path, number, 'not an object with "id" and "text"')
        if not isinstance(line.get("text"), str):
            raise _wrong_line(path, number, '"text" is not a string')
        lines.append(line)
    return lines


def _wrong_line(path: Path, number: int, reason: str) -> ArgumentError:
    return ArgumentError(
        f"{path}, line {number}: {reason}.",
        allowed='Allowed: {"id": …, "text": "…"}, and "intent" to score the line.',
        hint="Correct the line.",
    )


def _show(answer: dict[str, Any]) -> None:
    held_out = answer["prompts_held_out"]
    print_text(
        f"{answer['prompts']} prompts of {answer['intents']} intents, trained in "
        f"{answer['fit_s']} s; minimum confidence: {answer['cut']}."
    )
    rows = [["prompts, each held out", *_cells(held_out), f"{held_out['calibration_error']:.3f}"]]
    if "labelled" in answer:
        rows.append(["messages", *_cells(answer["labelled"]), ""])
    headings = ("", "accuracy", "before threshold", "false alarms", "out of scope", "calibration")
    print_table(headings, rows)
    if "messages" in answer:
        print_text(
            f"{answer['messages']} messages, {answer['answered']:.1%} answered, "
            f"{answer['ms_p50']} ms each (median CPU time)."
        )
    if "sweep" in answer:
        print_table(
            (
                "wanted",
                "cut",
                "false alarms",
                "wrong answers",
                "messages: right",
                "alarms",
                "caught",
            ),
            [
                [
                    f"{row['false_alarms_wanted']:.0%}",
                    f"{row['cut']:.3f}",
                    f"{row['false_alarms']:.1%}",
                    f"{row['wrong_answers']:.1%}",
                    *(_cells(row["labelled"])[::2] if "labelled" in row else ("", "")),
                    _cells(row["labelled"])[3] if "labelled" in row else "",
                ]
                for row in answer["sweep"]
            ],
        )


def _cells(scored: dict[str, Any]) -> list[str]:
    keys = ("accuracy", "accuracy_before_cut", "false_alarms", "out_of_scope_recall")
    return [f"{scored[key]:.1%}" if key in scored else "" for key in keys]


def _calibration_error(confidence: NDArray[np.floating], right: NDArray[np.bool_]) -> float:
    """Compute the expected calibration error: mean |confidence - accuracy| in ten weighted bins."""
    bins = np.minimum((confidence * 10).astype(int), 9)
    gaps = [
        abs(confidence[bins == b].mean() - right[bins == b].mean()) * int((bins == b).sum())
        for b in np.unique(bins)
    ]
    return round(float(np.sum(gaps)) / max(len(confidence), 1), 4)


def _mean(values: NDArray[np.bool_]) -> float:
    return round(float(np.mean(values)), 4) if len(values) else 0.0


def _normalize(name: object) -> str:
    """Normalize an intent name for comparison: lower case, other characters replaced by `_`."""
    if not isinstance(name, str):
        return ""
    signs = "".join(sign if sign.isalnum() else " " for sign in name.casefold())
    return "_".join(signs.split())
