"""`toolgate detect`: what a message asks for, which tool does it, and its arguments."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast
from zoneinfo import ZoneInfo

import anyio
import typer

from toolgate.cli._exit import FINE, NOTHING
from toolgate.cli._harmless import one_line
from toolgate.cli._output import note, print_json, print_text, waiting
from toolgate.errors import ArgumentError, OptionError
from toolgate.intent import (
    EXACT,
    Cascade,
    Detection,
    Detector,
    Intent,
    IntentFiles,
    Request,
    read_intents,
    shipped,
)
from toolgate.intent import Stage as JudgingStage
from toolgate.types import Json

__all__ = ["app"]

app = typer.Typer()

Stage: TypeAlias = Literal["keyword", "semantic", "cascade"]

_BRIEF = ("use_mcp", "intent", "confidence", "tool", "arguments", "matched")


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
        typer.Option("--pack", metavar="DIR", help="Use this pack, not schema. Repeatable."),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="ROWS.jsonl",
            help="Take messages from lines of JSON, and print a line for each.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every intent, and why it was or was not chosen.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> int:
    """Tell what a message asks for, and read its arguments."""
    chosen = _stage(stage)
    day = _day(today, "--today") if today else None
    asked = _Asked(_packs(pack or [shipped("schema")]), zone, languages, chosen)
    detector = asked.detector
    if rows is not None:
        if text:
            raise ArgumentError("A message and --file were both given.", hint="Give one of them.")
        return _answer_rows(asked, rows, day)
    found = asked.answers([(_message(text or []), day)])[0]
    if as_json:
        print_json(_answer(detector, found, explain=explain))
    else:
        _show(detector, found, explain=explain)
    return FINE if found.use_mcp else NOTHING


class _Asked:
    """What answers: keywords, and the semantic stage where it is wanted and has prompts."""

    def __init__(self, packs: list[IntentFiles], zone: str, languages: str, stage: Stage):
        intents = [intent for each in packs for intent in each.intents]
        self.detector = _detector(intents, zone, languages)
        self._stage = stage
        self._learned = [each for each in packs if any(i.prompts for i in each.intents)]
        if stage == "semantic" and not self._learned:
            raise OptionError(
                "The stage 'semantic' needs example prompts, and no pack has any.",
                hint="Use --stage keyword, or add files intents/NAME.txt.",
            )

    def answers(self, messages: list[tuple[str, date | None]]) -> list[Detection]:
        """What messages ask for."""
        requests = [self.detector.request(text, today=day) for text, day in messages]
        if self._stage == "keyword" or not self._learned:
            found = [self.detector.keywords.match(request) for request in requests]
        else:
            found = anyio.run(self._judged, requests)
        return [
            self.detector.filled(each, request)
            for each, request in zip(found, requests, strict=True)
        ]

    async def _judged(self, requests: list[Request]) -> list[Detection]:
        if self._stage == "cascade":
            decided = [self.detector.keywords.match(request) for request in requests]
            if all(each.confidence >= EXACT for each in decided):
                return decided  # nothing has to be learned for them
        with waiting("Learning the example prompts"):
            learn = import_module("toolgate.cli._classifier").learn
            meaning: JudgingStage = await learn(self.detector.intents, self._learned)
        chosen = meaning
        if self._stage == "cascade":
            chosen = Cascade(self.detector.keywords, meaning)
        return [await chosen.judge(request) for request in requests]


def _packs(folders: list[Path]) -> list[IntentFiles]:
    """What each pack says of its intents."""
    found: list[IntentFiles] = []
    for folder in folders:
        read = read_intents(folder)
        if not read.intents:
            raise OptionError(
                f"{folder} has no intents.",
                hint=f"An intent is a file {folder / 'intents' / 'NAME.toml'}.",
            )
        found.append(read)
    return found


def _detector(intents: list[Intent], zone: str, languages: str) -> Detector:
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError) as error:  # KeyError: no such zone
        raise OptionError(
            f"There is no time zone {zone!r}.", hint="Name one as Europe/Berlin, or UTC."
        ) from error
    wanted = [each.strip() for each in languages.split(",") if each.strip()]
    known = sorted({language for intent in intents for language in intent.keywords})
    for language in wanted:
        if language not in known:
            raise OptionError(
                f"There are no keywords for the language {language!r}.",
                allowed=f"Available: {', '.join(known)}.",
                hint="Separate several by commas.",
            )
    return Detector(intents, zone=zone, languages=wanted)


def _stage(name: str) -> Stage:
    if name not in {"keyword", "semantic", "cascade"}:
        raise OptionError(
            f"There is no stage {name!r}.", allowed="Available: keyword, semantic, cascade."
        )
    return cast("Stage", name)


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


def _answer_rows(asked: _Asked, path: Path, today: date | None) -> int:
    rows = list(_rows(path))
    messages = [
        (str(row["input"]), _day(row["today"], f"{path}: today") if row.get("today") else today)
        for row in rows
    ]
    for row, found in zip(rows, asked.answers(messages), strict=True):
        print(json.dumps({"id": row.get("id"), **_brief(found)}, ensure_ascii=True))
    return FINE


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


def _brief(found: Detection) -> Json:
    """What every answer has."""
    made: Json = {name: getattr(found, name) for name in _BRIEF}
    return {**made, "arguments": dict(found.arguments), "matched": list(found.matched)}


def _answer(detector: Detector, found: Detection, *, explain: bool) -> Json:
    made: Json = {
        **_brief(found),
        "stage": found.stage,
        "reason": found.reason,
        "found": [asdict(each) for each in found.found],
        "intents": list(found.intents),
        "candidates": [asdict(each) for each in found.candidates],
        "question": found.question or None,
    }
    if explain:
        made["explanation"] = _explained(detector, found)
    return made


def _explained(detector: Detector, found: Detection) -> list[Json]:
    """Every intent with its score, best first, those without one too."""
    scores = {each.intent: each for each in found.candidates}
    rows: list[Json] = [
        {
            "intent": intent.name,
            "tool": intent.tool or None,
            "pack": intent.pack,
            "confidence": scores[intent.name].confidence if intent.name in scores else 0.0,
            "why": scores[intent.name].why if intent.name in scores else "nothing speaks for it",
        }
        for intent in detector.intents
    ]
    return sorted(rows, key=lambda row: -float(row["confidence"]))


def _show(detector: Detector, found: Detection, *, explain: bool) -> None:
    if found.use_mcp:
        tool = f"  tool {one_line(found.tool)}" if found.tool else ""
        print_text(f"{one_line(found.intent)}  {found.confidence:.2f}{tool}")
        print_text(f"  {found.stage}: {one_line(found.reason)}")
        for each in found.found:
            read = "  (default)"
            if each.spans:
                places = ", ".join(f"{span.start}-{span.end}" for span in each.spans)
                read = f"  from {json.dumps(each.text, ensure_ascii=False)} at {places}"
            value = json.dumps(each.value, ensure_ascii=False)
            print_text(f"  {one_line(each.name)} = {value}{read}")
    else:
        print_text("none")
        note(one_line(found.reason))
    if found.question:
        print_text(one_line(found.question))
    if explain:
        print_text()
        for row in _explained(detector, found):
            print_text(
                f"{row['confidence']:.2f}  {one_line(str(row['intent']))}  {one_line(row['why'])}"
            )
