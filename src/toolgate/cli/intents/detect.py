"""`toolgate detect`: the intent of a message, its tool and its arguments."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import anyio
import typer

from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.intents import _saved_runs
from toolgate.cli.intents._detect_session import DetectSession, Reasons
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_table, print_text
from toolgate.cli.terminal._sanitize import one_line
from toolgate.errors import ArgumentError, OptionError
from toolgate.intents import (
    Detection,
    StageChoice,
)
from toolgate.packs import Pack, Packs, load_pack
from toolgate.settings import Settings
from toolgate.types import Json

app = CommandApp()


@app.command(help="Detect the intent of a message and extract its arguments.")
def detect(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="The message; - reads it from standard input."),
    ] = None,
    today: Annotated[
        str,
        typer.Option(metavar="YYYY-MM-DD", help='Reference date for words such as "yesterday".'),
    ] = "",
    zone: Annotated[
        str, typer.Option(metavar="NAME", help="Time zone of dates in the message.")
    ] = "UTC",
    stage: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Detection method: keyword, semantic, or cascade (keyword first, then semantic).",
        ),
    ] = "cascade",
    languages: Annotated[
        str, typer.Option(metavar="en,de", help="Only keywords of these languages.")
    ] = "",
    pack: Annotated[
        list[Path] | None,
        typer.Option(
            "--pack", metavar="DIR", help="Use only this pack, even if disabled. Can be repeated."
        ),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="ROWS.jsonl",
            help="Read messages from a JSON Lines file, and print a line for each.",
        ),
    ] = None,
    dev: Annotated[bool, typer.Option("--dev", help="Also use intents with dev = true.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain the score of every intent.")
    ] = False,
    stats: Annotated[
        bool,
        typer.Option(
            "--stats",
            help="Show statistics of earlier messages, and list those with low confidence.",
        ),
    ] = False,
    days: Annotated[
        float, typer.Option(metavar="N", help="With --stats: number of days. Default: 30.")
    ] = 30,
    project: Annotated[
        str, typer.Option(metavar="NAME", help="With --stats: only this project.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Detect the intent of a message and extract its arguments."""
    if stats:
        if text or rows is not None:
            raise ArgumentError(
                "A message and --stats exclude each other.", hint="Use one of them."
            )
        show = import_module("toolgate.cli.intents._statistics").show
        return int(anyio.run(show, days, project or None, as_json))
    chosen = _stage(stage)
    day = _day(today, "--today") if today else None
    settings = load_settings()
    packs = _packs(settings, pack, dev=dev)
    if settings.connections and any(candidate.live for candidate in packs):
        tables = import_module("toolgate.cli.client._live_tables")
        packs = cast("tuple[Pack, ...]", anyio.run(tables.with_table_names, settings, packs))
    asked = DetectSession(packs, zone, languages, chosen)
    if rows is not None:
        if text:
            raise ArgumentError("A message and --file exclude each other.", hint="Use one of them.")
        return _answer_rows(asked, rows, day)
    message = _message(text or [])
    detection, why = asked.answer(message, day, explain=explain)
    if as_json:
        print_json(_answer(asked, detection, why))
    else:
        _show(asked, detection, why)
    _saved_runs.save_detection(settings, message, detection)
    return SUCCESS if detection.use_mcp else NO_RESULT


def _packs(settings: Settings, folders: list[Path] | None, *, dev: bool) -> tuple[Pack, ...]:
    """Return the named packs, or else all enabled ones."""
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
            f"{where} {text!r} is not a date.", hint="Write it as YYYY-MM-DD, such as 2025-10-21."
        ) from error


def _message(words: list[str]) -> str:
    if words == ["-"]:
        return sys.stdin.read()
    if not words:
        raise ArgumentError(
            "There is no message.", hint='Run: toolgate detect "show the latest changes"'
        )
    return " ".join(words)


# Rows


def _answer_rows(asked: DetectSession, path: Path, today: date | None) -> int:
    rows = list(_rows(path))
    messages = [
        (str(row["input"]), _day(row["today"], f"{path}: today") if row.get("today") else today)
        for row in rows
    ]
    for row, detection in zip(rows, asked.answers(messages), strict=True):
        print(json.dumps({"id": row.get("id"), **detection.as_json()}, ensure_ascii=True))
    return SUCCESS


def _rows(path: Path) -> Iterator[Json]:
    """Read and validate the lines of a file."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ArgumentError(
            f"{path} cannot be read: {error.strerror or error}.", hint="Name a file of JSON lines."
        ) from error
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} is not UTF-8.", hint="Save it as UTF-8.") from error
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
                f"{path}:{number} is not a message.",
                hint='A line is: {"id": "1", "input": "show changes", "today": "2025-10-21"}',
            )
        yield cast("Json", row)


# Answers


def _answer(asked: DetectSession, detection: Detection, why: Reasons | None) -> Json:
    answer = detection.as_json()
    if why is not None:
        answer["explanation"] = _explanation(asked, detection, why)
    return answer


def _explanation(asked: DetectSession, detection: Detection, why: Reasons) -> Json:
    """Return every intent with its scores and their origin."""
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
            "why": scores[intent.name].why if intent.name in scores else "no evidence",
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


def _show(asked: DetectSession, detection: Detection, why: Reasons | None) -> None:
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
    for said in detection.unread:
        print_text(f"  not understood: {json.dumps(said, ensure_ascii=False)}")
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
        embedder = explained["embedder"] or "none, n-grams only"
        print_text(
            f"threshold: {explained['cut']:.2f}; first against second: {explained['sure']:.2f}; "
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
