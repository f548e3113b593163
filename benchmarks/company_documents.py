"""Measures how often the documents of organizations answer ordinary questions.

560 questions about 40 invented documents: rules, terms, manuals, price lists. See
`benchmarks.document_questions`, which asks about public manuals. No chat model is used.
"""

from benchmarks._data import DATA, read_rows
from benchmarks._report import Report
from benchmarks.document_questions import answers_by_collection, table_row

QUESTIONS = DATA / "company_questions.jsonl"
"""560 questions: `question`, `document`, and `line`, which answers it."""

QUICK = 40
"""Questions that the quick form asks."""


def measure(quick: bool) -> Report:
    """Ask the questions and return the table."""
    rows = read_rows(QUESTIONS)
    asked = rows[:: len(rows) // QUICK] if quick else rows
    answers = answers_by_collection(DATA, {"company": ("company/*.md",)}, asked)["company"]
    return Report(
        name="company_documents",
        title="Questions that the documents of organizations answer",
        rows=[table_row("company", answers)],
    )
