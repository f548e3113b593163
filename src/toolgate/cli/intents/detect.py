"""`toolgate detect`: what a message asks for, which tool does it, and its arguments."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast
from zoneinfo import ZoneInfo

import anyio
import typer

from toolgate.base.token_estimate import estimate_tokens
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.intents import _saved_runs
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_table, print_text, spinner
from toolgate.cli.terminal._sanitize import one_line
from toolgate.errors import ArgumentError, OptionError
from toolgate.intents import (
    Cascade,
    Detection,
    Explanation,
    Intent,
    IntentDetector,
    SemanticStage,
    StageChoice,
    StageRequest,
)
from toolgate.packs import Pack, Packs, load_pack
from toolgate.server.rest.detection import detection_json
from toolgate.settings import Settings
from toolgate.types import Json

__all__ = ["app"]

app = typer.Typer(add_completion=False)

_BRIEF = ("use_mcp", "intent", "confidence", "tool", "arguments", "matched")

_PREVIEW_LINES = 5
"""Lines of the rules that an explanation shows."""

_NEAREST_PROMPTS = 5
"""Prompts that an explanation names."""


@app.command(help="Tell what a message asks for, and read its arguments.")
def detect(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="The message; - reads it from standard input."),
    ] = None,
    today: Annotated[
        str,
        typer.Option(metavar="YYYY-MM-DD", help='The day that "yesterday" counts from.'),
    ] = "",
    zone: Annotated[
        str, typer.Option(metavar="NAME", help="Time zone of the days in the message.")
    ] = "UTC",
    stage: Annotated[
        str,
        typer.Option(metavar="NAME", help="Who decides: keyword, semantic or cascade."),
    ] = "cascade",
    languages: Annotated[
        str, typer.Option(metavar="en,de", help="Only keywords of these languages.")
    ] = "",
    pack: Annotated[
        list[Path] | None,
        typer.Option("--pack", metavar="DIR", help="Only this pack, in use or not. Repeatable."),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="ROWS.jsonl",
            help="Take messages from lines of JSON, and print a line for each.",
        ),
    ] = None,
    dev: Annotated[
        bool, typer.Option("--dev", help="Also intents that are marked dev = true.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every intent, and why it was or was not chosen.")
    ] = False,
    stats: Annotated[
        bool,
        typer.Option(
            "--stats",
            help="Show what earlier messages were taken for, and the doubtful ones.",
        ),
    ] = False,
    days: Annotated[float, typer.Option(metavar="N", help="With --stats: of the last days.")] = 30,
    project: Annotated[
        str, typer.Option(metavar="NAME", help="With --stats: of this project alone.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> int:
    """Tell what a message asks for, and read its arguments."""
    if stats:
        if text or rows is not None:
            raise ArgumentError("A message and --stats were both given.", hint="Give one of them.")
        show = import_module("toolgate.cli.intents._statistics").show
        return int(anyio.run(show, days, project or None, as_json))
    chosen = _stage(stage)
    day = _day(today, "--today") if today else None
    settings = load_settings()
    packs = _packs(settings, pack, dev=dev)
    if settings.connections and any(candidate.live for candidate in packs):
        tables = import_module("toolgate.cli.client._live_tables")
        packs = cast("tuple[Pack, ...]", anyio.run(tables.with_table_names, settings, packs))
    asked = _DetectSession(packs, zone, languages, chosen)
    if rows is not None:
        if text:
            raise ArgumentError("A message and --file were both given.", hint="Give one of them.")
        return _answer_rows(asked, rows, day)
    message = _message(text or [])
    detection, why = asked.answer(message, day, explain=explain)
    if as_json:
        print_json(_answer(asked, detection, why))
    else:
        _show(asked, detection, why)
    _saved_runs.save_detection(settings, message, detection)
    return SUCCESS if detection.use_mcp else NO_RESULT


@dataclass(frozen=True, kw_only=True)
class _Reasons:
    """How an answer came about."""

    meaning: Explanation | None
    """What the example prompts say; None: they were not asked, or there are none."""


class _DetectSession:
    """What answers: keywords, and the semantic stage where it is wanted and has prompts."""

    def __init__(self, packs: tuple[Pack, ...], zone: str, languages: str, stage: StageChoice):
        self.packs = packs
        self.detector = _detector(
            [intent for pack in packs for intent in pack.intents], zone, languages
        )
        self._stage = stage
        self._learns = stage != "keyword" and any(pack.prompts for pack in packs)
        if stage == "semantic" and not self._learns:
            raise OptionError(
                "The stage 'semantic' needs example prompts, and no pack has any.",
                hint="Use --stage keyword, or add files intents/NAME.txt.",
            )

    def answer(
        self, message: str, day: date | None, *, explain: bool
    ) -> tuple[Detection, _Reasons | None]:
        """What a message asks for, and why if that is wanted."""
        request = self.detector.request(message, today=day)
        meaning = None
        if self._learns:
            (detection,), meaning = anyio.run(self._judged, [request], explain)
        else:
            detection = self.detector.keywords.match(request)
        return self.detector.with_arguments(detection, request), _Reasons(
            meaning=meaning
        ) if explain else None

    def answers(self, messages: list[tuple[str, date | None]]) -> list[Detection]:
        """What messages ask for."""
        requests = [self.detector.request(text, today=day) for text, day in messages]
        if self._learns:
            detections, _ = anyio.run(self._judged, requests, False)
        else:
            detections = [self.detector.keywords.match(request) for request in requests]
        return [
            self.detector.with_arguments(detection, request)
            for detection, request in zip(detections, requests, strict=True)
        ]

    async def _judged(
        self, requests: list[StageRequest], explain: bool
    ) -> tuple[list[Detection], Explanation | None]:
        cascade = self._stage == "cascade"
        if cascade and not explain:
            by_keyword = [self.detector.keywords.match(request) for request in requests]
            if all(detection.confidence >= Cascade.decides for detection in by_keyword):
                return by_keyword, None  # nothing has to be learned for these
        with spinner("Learning the example prompts"):
            classifier = import_module("toolgate.cli.intents._classifier")
            meaning: SemanticStage = await classifier.fit_semantic_stage(self.packs)
        chosen = Cascade(self.detector.keywords, meaning) if cascade else meaning
        detections = [await chosen.classify(request) for request in requests]
        return detections, await meaning.explain(
            requests[0].text, _NEAREST_PROMPTS
        ) if explain else None

    def rules_of(self, intent: str) -> Json | None:
        """Path, size and first lines of the rules of an intent."""
        for pack in self.packs:
            if text := pack.rules_of(intent):
                lines = [line for line in text.splitlines() if line.strip()]
                return {
                    "path": str(pack.rule_files[intent.casefold()]),
                    "size_bytes": len(text.encode("utf-8", "replace")),
                    "tokens": estimate_tokens(text),
                    "first_lines": lines[:_PREVIEW_LINES],
                }
        return None


def _packs(settings: Settings, folders: list[Path] | None, *, dev: bool) -> tuple[Pack, ...]:
    """The packs that are asked: those that are named, else all in use."""
    if folders is None:
        return anyio.run(_enabled_packs, settings, dev)
    packs = tuple(load_pack(folder, dev=dev or settings.packs.dev) for folder in folders)
    for pack in packs:
        for problem in pack.problems:
            note(problem)
        if not pack.intents:
            raise OptionError(
                f"{pack.folder} has no intents.",
                hint=f"An intent is a file {pack.folder / 'intents' / 'NAME.toml'}.",
            )
    return packs


async def _enabled_packs(settings: Settings, dev: bool) -> tuple[Pack, ...]:
    pack_settings = replace(settings.packs, dev=True) if dev else settings.packs
    packs = Packs(pack_settings, cwd=Path.cwd())
    await packs.refresh()
    for problem in packs.current.problems:
        note(problem)
    return packs.current.packs


def _detector(intents: list[Intent], zone: str, languages: str) -> IntentDetector:
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError) as error:  # KeyError: no such zone
        raise OptionError(
            f"There is no time zone {zone!r}.", hint="Name one as Europe/Berlin, or UTC."
        ) from error
    selected = [code.strip() for code in languages.split(",") if code.strip()]
    available = sorted({language for intent in intents for language in intent.keywords})
    for language in selected:
        if language not in available:
            raise OptionError(
                f"There are no keywords for the language {language!r}.",
                allowed=f"Available: {', '.join(available)}.",
                hint="Separate several by commas.",
            )
    return IntentDetector(intents, zone=zone, languages=selected)


def _stage(name: str) -> StageChoice:
    if name not in {"keyword", "semantic", "cascade"}:
        raise OptionError(
            f"There is no stage {name!r}.", allowed="Available: keyword, semantic, cascade."
        )
    return cast("StageChoice", name)


def _day(text: str, where: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ArgumentError(
            f"{where} {text!r} is no day.", hint="Write it as YYYY-MM-DD, as in 2025-10-21."
        ) from error


def _message(words: list[str]) -> str:
    if words == ["-"]:
        return sys.stdin.read()
    if not words:
        raise ArgumentError(
            "There is no message.", hint='Write: toolgate detect "show the latest changes"'
        )
    return " ".join(words)


# Rows


def _answer_rows(asked: _DetectSession, path: Path, today: date | None) -> int:
    rows = list(_rows(path))
    messages = [
        (str(row["input"]), _day(row["today"], f"{path}: today") if row.get("today") else today)
        for row in rows
    ]
    for row, detection in zip(rows, asked.answers(messages), strict=True):
        print(json.dumps({"id": row.get("id"), **_brief(detection)}, ensure_ascii=True))
    return SUCCESS


def _rows(path: Path) -> Iterator[Json]:
    """The lines of a file, checked."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be read: {error.strerror or error}.", hint="Name a file of JSON lines."
        ) from error
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} is no UTF-8 text.", hint="Save it as UTF-8.") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        fits = isinstance(row, dict) and isinstance(cast("Json", row).get("input"), str)
        day: object = cast("Json", row).get("today") if fits else None
        if not fits or not isinstance(day, str | None):
            raise ArgumentError(
                f"{path}:{number} is no message.",
                hint='A line is: {"id": "1", "input": "show changes", "today": "2025-10-21"}',
            )
        yield cast("Json", row)


# Answers


def _brief(detection: Detection) -> Json:
    """What every answer has."""
    answer: Json = {name: getattr(detection, name) for name in _BRIEF}
    return {**answer, "arguments": dict(detection.arguments), "matched": list(detection.matched)}


def _answer(asked: _DetectSession, detection: Detection, why: _Reasons | None) -> Json:
    answer = detection_json(detection)
    if why is not None:
        answer["explanation"] = _explanation(asked, detection, why)
    return answer


def _explanation(asked: _DetectSession, detection: Detection, why: _Reasons) -> Json:
    """Every intent with its scores, and what they come from."""
    meaning = why.meaning
    scores = {candidate.intent: candidate for candidate in detection.candidates}
    learned = dict(meaning.ranked) if meaning else {}
    rows: list[Json] = [
        {
            "intent": intent.name,
            "tool": intent.tool or None,
            "pack": intent.pack,
            "confidence": scores[intent.name].confidence if intent.name in scores else 0.0,
            "prompts_say": round(learned[intent.name], 4) if intent.name in learned else None,
            "why": scores[intent.name].why if intent.name in scores else "nothing speaks for it",
        }
        for intent in asked.detector.intents
    ]
    rows.sort(key=lambda row: (-float(row["confidence"]), -float(row["prompts_say"] or 0)))
    nearest = meaning.nearest if meaning else ()
    return {
        "intents": rows,
        "matched": list(detection.matched),
        "cut": round(meaning.cut, 4) if meaning else None,
        "sure": round(meaning.sure, 4) if meaning else None,
        "embedder": meaning.embedder or None if meaning else None,
        "nearest": [
            {"intent": intent or None, "prompt": prompt, "similarity": similarity}
            for intent, prompt, similarity in nearest
        ],
        "rules": asked.rules_of(detection.intent),
    }


def _show(asked: _DetectSession, detection: Detection, why: _Reasons | None) -> None:
    if detection.use_mcp:
        tool = f"  tool {one_line(detection.tool)}" if detection.tool else ""
        print_text(f"{one_line(detection.intent)}  {detection.confidence:.2f}{tool}")
        print_text(f"  {detection.stage}: {one_line(detection.reason)}")
        for argument in detection.read_arguments:
            read = "  (default)"
            if argument.spans:
                places = ", ".join(f"{span.start}-{span.end}" for span in argument.spans)
                read = f"  from {json.dumps(argument.text, ensure_ascii=False)} at {places}"
            value = json.dumps(argument.value, ensure_ascii=False)
            print_text(f"  {one_line(argument.name)} = {value}{read}")
    else:
        print_text("none")
        note(one_line(detection.reason))
    if detection.question:
        print_text(one_line(detection.question))
    if why is not None:
        _show_explanation(_explanation(asked, detection, why))


def _show_explanation(explained: Json) -> None:
    print_text()
    for row in explained["intents"]:
        prompt_score = row["prompts_say"]
        learned = "" if prompt_score is None else f"  (prompts: {prompt_score:.2f})"
        print_text(
            f"{row['confidence']:.2f}  {one_line(row['intent'])}  {one_line(row['why'])}{learned}"
        )
    if explained["matched"]:
        print_text(f"keywords: {', '.join(map(one_line, explained['matched']))}")
    if explained["cut"] is not None:
        embedder = explained["embedder"] or "none, pieces of words alone"
        print_text(
            f"cut: {explained['cut']:.2f}; the first and not the second: {explained['sure']:.2f}; "
            f"embedder: {one_line(embedder)}"
        )
        print_table(
            ("Nearest prompt", "Intent", "Similarity"),
            [
                [
                    prompt["prompt"],
                    prompt["intent"] or "(unsupported)",
                    f"{prompt['similarity']:.3f}",
                ]
                for prompt in explained["nearest"]
            ],
            wrap=0,
        )
    rules = explained["rules"]
    if rules is None:
        print_text("rules: none")
        return
    print_text(
        f"rules: {one_line(rules['path'])}, {rules['size_bytes']:,} bytes, "
        f"{rules['tokens']:,} tokens"
    )
    for line in rules["first_lines"]:
        print_text(f"    {one_line(line)}")
