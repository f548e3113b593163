"""`toolgate eval answers`: measure retrieval and the quality of answers."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from toolgate.app.app import App, open_app
from toolgate.chat import ChatService, choices_from
from toolgate.cli.client._gateway_client import STARTUP_TIMEOUT_S
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.evaluation._save_results import save_metrics
from toolgate.cli.terminal._command_app import AsJson
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.cli.terminal._output import note, plural, print_json, print_table
from toolgate.errors import ArgumentError, SettingError
from toolgate.evaluation.answers import AnswerRun, TurnVariant, measure_variant
from toolgate.evaluation.question_sets import (
    AnswerQuestion,
    generate_questions,
    read_questions,
    write_questions,
)
from toolgate.evaluation.saved_answer_runs import runs_folder, save_run
from toolgate.settings import Settings
from toolgate.types import Caller, Json

_RETRIEVER = "documents:retriever"
_FORCED: Json = {"retrieval": "forced"}
"""The questions are about documents, so every variant searches documents unless it sets
something else."""

_METRICS = ("correct", "faithful", "hit@1", "hit@5", "MRR", "answered")
_HEADINGS = ("variant", "questions", *_METRICS, "tokens", "cost", "s")
_TRUE_FALSE = {"true": True, "false": False, "yes": True, "no": False}


def answers(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="File with questions, one JSON object per line."),
    ] = None,
    collection: Annotated[
        str,
        typer.Option(
            "--generate", metavar="COLLECTION", help="Generate questions from this collection."
        ),
    ] = "",
    count: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of questions to generate.")
    ] = 20,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the generated questions to FILE.")
    ] = None,
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME=VALUE,...",
            help="Also measure with these thread settings. Can be repeated.",
        ),
    ] = None,
    judge: Annotated[
        str,
        typer.Option(metavar="MODEL", help="Model that generates questions and judges answers."),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Ask questions about documents and judge the answers.

    Each line of a file is a JSON object with `question` and optionally `answer`, `collection`,
    `document` and `quote` (a sentence from the passage that has the answer). Each question is asked
    in a new thread, with document search. correct: a model compares the answer with the expected
    one (1, partly 0.5, wrong 0). faithful: a model checks whether the retrieved documents support
    the answer. hit@k: the passage with the quote is among the first k; MRR: mean reciprocal rank
    among the first ten.

    --with compares settings: --with top_k=4 --with top_k=4,search_type=similarity. The first row
    always shows the current settings. The Evaluation page of the console shows all answers,
    and the metrics over time.
    """
    if bool(files) == bool(collection):
        raise ArgumentError(
            "Questions must come from files, or from a collection.",
            hint="Give files with questions, or --generate COLLECTION.",
        )
    if save is not None and not collection:
        raise ArgumentError("--save needs --generate.", hint="Give --generate COLLECTION too.")
    given = [question for file in files or () for question in read_questions(file)]
    settings = load_settings()
    subject = collection or "+".join(file.stem for file in files or ())
    measured = [TurnVariant(name="settings", choices=_FORCED), *map(_variant, variants or ())]
    for variant in measured:  # before anything is paid for
        choices_from(settings.chat, {}, {}, variant.choices)
    runs, judge = anyio.run(_measure, settings, given, collection, count, save, measured, judge)
    _save(subject, judge, runs)
    if as_json:
        print_json(
            {
                "set": subject,
                "judge": judge,
                "variants": [
                    {
                        "name": run.variant.name,
                        "choices": run.variant.choices,
                        **run.shares(),
                        **run.means(),
                        "answers": [asdict(answer) for answer in run.answers],
                    }
                    for run in runs
                ],
            }
        )
    else:
        print_table(_HEADINGS, [_cells(run) for run in runs])
    return SUCCESS


def _variant(text: str) -> TurnVariant:
    choices: dict[str, Any] = dict(_FORCED)
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ArgumentError(
                f"--with {text!r} is not NAME=VALUE.",
                hint="Write for instance --with top_k=4,search_type=similarity.",
            )
        value = value.strip()
        choices[name.strip()] = (
            int(value) if value.isdecimal() else _TRUE_FALSE.get(value.lower(), value)
        )
    return TurnVariant(name=text, choices=choices)


async def _measure(
    settings: Settings,
    given: Sequence[AnswerQuestion],
    collection: str,
    count: int,
    save: Path | None,
    variants: Sequence[TurnVariant],
    judge: str,
) -> tuple[list[AnswerRun], str]:
    async with open_app(settings, wait_s=STARTUP_TIMEOUT_S, connect=("documents",)) as app:
        chat, caller = _chat(app), Caller.local()
        judge = chat.models.name_of(judge or settings.chat.helper_model or None)
        questions = list(given)
        if collection:
            questions = await generate_questions(
                app.gateway, chat, caller, collection, count=count, model=judge
            )
            note(f"{plural(len(questions), 'question')} generated from {collection}.")
            if save is not None:
                write_questions(save, questions)
        runs: list[AnswerRun] = []
        for variant in variants:
            run = await measure_variant(app.gateway, chat, caller, questions, variant, judge=judge)
            for answer in run.answers:
                if answer.error:
                    note(f"{variant.name}: {answer.id}: {answer.error}")
            runs.append(run)
        return runs, judge


def _chat(app: App) -> ChatService:
    """Return the chat service of a gateway that can search documents."""
    if app.chat is None:
        raise SettingError(
            "No chat model is configured.",
            hint="Add a table [models.NAME] to toolgate.toml; see docs/chat.md.",
        )
    if app.gateway.visible.tool_or_none(Caller.local(), _RETRIEVER) is None:
        raise SettingError(
            "The pack documents is not enabled.", hint="Run: toolgate pack enable documents"
        )
    return app.chat


def _save(subject: str, judge: str, runs: Sequence[AnswerRun]) -> None:
    save_metrics(
        "answers", [(subject, run.variant.name, len(run.answers), run.shares()) for run in runs]
    )
    folder = runs_folder()
    try:
        save_run(folder, subject, judge, runs)
    except OSError as error:
        note(f"Not saved for the console: {folder} cannot be written ({error.strerror}).")


def _cells(run: AnswerRun) -> list[str]:
    shares, means = run.shares(), run.means()
    return [
        run.variant.name,
        str(len(run.answers)),
        *(f"{shares[name]:.3f}" if name in shares else "-" for name in _METRICS),
        f"{means['tokens']:.0f}",
        f"{means['cost']:.5f}",
        f"{means['seconds']:.2f}",
    ]
