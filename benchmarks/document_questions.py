"""Measures how often documents answer ordinary questions, and what that costs in tokens.

    python -m benchmarks.document_questions DATA [--tuning] [--json]

DATA is a folder into which the packages of `COLLECTIONS` were unpacked:

    apt-get download libreoffice-help-en-us r-doc-pdf nethack-common doc-debian
    for package in *.deb; do dpkg-deb -x "$package" DATA; done
    npm pack fastify@5.12.8 && tar xzf fastify-5.12.8.tgz -C DATA

With `--tuning`, 97 more questions are asked instead, on which retrieval was tuned as well. They are
about the packages `mutt`, `gnucash-docs` and `sqlite3-doc` of Debian 12.

A question is answered at k if one of the first k passages contains the line that answers it. The
questions and these lines are in `data/document_questions.jsonl`. No chat model is used.
"""

import gzip
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import anyio

from benchmarks._data import DATA, read_rows
from benchmarks._report import Report, Target, parser_of, print_measured
from toolgate.app.app import open_app
from toolgate.base.token_estimate import estimate_tokens
from toolgate.documents import NewDocument, RetrieveRequest
from toolgate.documents.formats.conversion import convert
from toolgate.documents.quotation import quoted
from toolgate.settings import Settings, StoreSettings
from toolgate.types import Caller

QUESTIONS = DATA / "document_questions.jsonl"
"""200 questions: `question`, `collection`, `document`, `section`, and `line`, which answers it."""

COLLECTIONS = {
    "calc": ("usr/share/libreoffice/help/en-US/text/scalc/guide/*.html",),
    "nethack": ("usr/share/doc/nethack-common/Guidebook.txt.gz",),
    "debian": (
        "usr/share/doc/debian/bug-*.txt*",
        "usr/share/doc/debian/constitution.txt.gz",
        "usr/share/doc/debian/mailing-lists.txt.gz",
        "usr/share/doc/debian/social-contract.txt.gz",
        "usr/share/doc/debian/source-unpack.txt",
    ),
    "fastify": ("package/docs/Guides/*.md", "package/docs/Reference/*.md"),
    "r": (
        "usr/share/R/doc/manual/R-intro.pdf",
        *(f"usr/share/R/doc/manual/R-{name}.pdf" for name in ("data", "FAQ")),
    ),
}
"""Files of each collection below DATA."""

TUNING_QUESTIONS = DATA / "document_questions_tuning.jsonl"
"""97 questions of the same form."""

TUNING_COLLECTIONS = {
    "mutt": ("usr/share/doc/mutt/manual.txt.gz",),
    "gnucash": ("usr/share/doc/gnucash-docs/gnucash-guide-en/*.html",),
    "sqlite": tuple(
        f"usr/share/doc/sqlite3/{name}.html"
        for name in (
            *("autoinc", "backup", "cli", "datatype3", "faq", "foreignkeys", "howtocorrupt"),
            *("isolation", "lang_transaction", "lang_upsert", "limits", "partialindex", "quirks"),
            *("security", "tempfiles", "wal", "whentouse", "withoutrowid"),
        )
    ),
}
"""Files of their collections below DATA."""

TUNED = ("calc", "nethack")
"""Collections that were used to improve the retrieval; the others are only measured."""

DEPTH = 5


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result for one question."""

    rank: int
    """Rank of the first passage that answers it, from 1; 0 if none of those retrieved does."""

    is_shown: bool
    """Whether that passage is among those given to a model."""

    tokens: int
    """Estimated tokens of what a model is given."""


def normalized(text: str) -> str:
    """Keep letters and digits only: line breaks, hyphens and markup do not count."""
    return re.sub(r"[^a-z0-9]+", "", text.lower())


def documents_of(folder: Path, patterns: Sequence[str]) -> Iterator[NewDocument]:
    """Return the documents of a collection as text."""
    for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
        data, name = path.read_bytes(), path.name
        if name.endswith(".gz"):
            data, name = gzip.decompress(data), name.removesuffix(".gz")
        converted = convert(name, data)
        yield NewDocument(
            source=f"{path.parent.name}/{name}",
            text=converted.text,
            title=converted.title,
            has_pages=converted.has_pages,
            media_type=converted.media_type,
        )


async def answers_of(
    folder: Path,
    collections: Mapping[str, Sequence[str]],
    questions: Sequence[dict[str, Any]],
    database: Path,
) -> dict[str, Answer]:
    """Return the results by question ID."""
    settings = Settings(store=StoreSettings(url=f"sqlite:///{database}"))
    caller = Caller.local()
    answers: dict[str, Answer] = {}
    async with open_app(settings) as app:
        for name, patterns in collections.items():
            await app.gateway.documents.make(caller, name)
            for document in documents_of(folder, patterns):
                await app.gateway.documents.add(caller, name, document)
        for row in questions:
            request = RetrieveRequest(
                question=row["question"], collections=(row["collection"],), top_k=DEPTH
            )
            retrieval = await app.gateway.documents.retrieve(caller, request)
            found = retrieval.documents
            ranks = [
                rank
                for rank, passage in enumerate(found, 1)
                if passage.source.endswith(row["document"])
                and normalized(row["line"]) in normalized(passage.text)
            ]
            shown = retrieval.injected_passages[: settings.documents.top_k]
            answers[row["id"]] = Answer(
                rank=ranks[0] if ranks else 0,
                is_shown=bool(ranks) and found[ranks[0] - 1] in shown,
                tokens=estimate_tokens(quoted(shown)),
            )
    return answers


def table_row(name: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """Return the figures for some questions."""
    return {
        "collection": name,
        "questions": len(answers),
        "hit@1": round(fmean(answer.rank == 1 for answer in answers), 3),
        "hit@5": round(fmean(answer.rank > 0 for answer in answers), 3),
        "shown": round(fmean(answer.is_shown for answer in answers), 3),
        "tokens": round(fmean(answer.tokens for answer in answers)),
    }


def measure_folder(folder: Path) -> Report:
    """Ask the 200 questions and return the table."""
    by_collection = answers_by_collection(folder, COLLECTIONS, read_rows(QUESTIONS))
    tuned = [answer for name in TUNED for answer in by_collection[name]]
    held_out = [
        answer for name, rows in by_collection.items() if name not in TUNED for answer in rows
    ]
    total = table_row("all", tuned + held_out)
    return Report(
        name="document_questions",
        title="Questions that documents answer",
        rows=[
            *(table_row(name, rows) for name, rows in by_collection.items()),
            table_row("tuned", tuned),
            table_row("held out", held_out),
            total,
        ],
        targets=(
            Target(what="hit@1", measured=total["hit@1"], limit=0.75, at_least=True),
            Target(what="hit@5", measured=total["hit@5"], limit=0.93, at_least=True),
        ),
        notes=(f"Tuned: {', '.join(TUNED)}; the other collections were only measured.",),
    )


def measure_tuning(folder: Path) -> Report:
    """Ask the other questions on which retrieval was tuned and return the table."""
    by_collection = answers_by_collection(folder, TUNING_COLLECTIONS, read_rows(TUNING_QUESTIONS))
    everything = [answer for rows in by_collection.values() for answer in rows]
    return Report(
        name="document_questions",
        title="Questions on which retrieval was tuned",
        rows=[
            *(table_row(name, rows) for name, rows in by_collection.items()),
            table_row("all", everything),
        ],
    )


def answers_by_collection(
    folder: Path, collections: Mapping[str, Sequence[str]], questions: Sequence[dict[str, Any]]
) -> dict[str, list[Answer]]:
    """Ask questions and return the results of each collection."""
    with tempfile.TemporaryDirectory() as scratch:
        database = Path(scratch) / "documents.db"
        answers = anyio.run(answers_of, folder, collections, questions, database)
    return {
        name: [answers[row["id"]] for row in questions if row["collection"] == name]
        for name in collections
    }


def main() -> None:
    """Measure the documents of a folder."""
    parser = parser_of("document_questions")
    parser.add_argument("data", type=Path, metavar="DATA", help="where the packages were unpacked")
    parser.add_argument("--tuning", action="store_true", help="ask the 97 questions for tuning")
    options = parser.parse_args()
    for name, patterns in (TUNING_COLLECTIONS if options.tuning else COLLECTIONS).items():
        if not any(any(options.data.glob(pattern)) for pattern in patterns):
            parser.error(f"{options.data} has no documents of {name}: {', '.join(patterns)}.")
    measure = measure_tuning if options.tuning else measure_folder
    print_measured(options, lambda _quick: measure(options.data))


if __name__ == "__main__":
    main()
