"""Demo step: questions about a database, with intent, rules, tool and answer."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.types import Json

_SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, mail TEXT UNIQUE);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER REFERENCES customers (id),
  placed_on DATE,
  total NUMERIC(10,2) CHECK (total >= 0)
);
"""

_STEPS = (
    ("", "What are the fields of an order?", "customer_id"),
    (
        "ALTER TABLE orders RENAME COLUMN placed_on TO ordered_on; CREATE TABLE refunds (id INT);",
        "What changed in our database since yesterday?",
        "renamed to ordered_on",
    ),
    ("", "Quelle est la version du schéma ?", "version 2"),
)
"""SQL to run first, the question, and text that the answer must contain."""


@dataclass(frozen=True, kw_only=True)
class QuestionResult:
    """Result of a question about a database."""

    message: str
    """The question."""

    intent: str
    """Detected intent, or `none`."""

    decided: str
    """Stage that detected it."""

    confidence: float
    """In [0, 1]."""

    tool: str
    """Tool that was called; empty for none."""

    arguments: Json = field(default_factory=dict[str, object])
    """Arguments read from the message."""

    prompt: str = ""
    """The enriched prompt that a model gets."""

    prompt_tokens: int = 0
    """Estimated tokens of the prompt."""

    answer: str = ""
    """Result of the tool."""

    worked: bool = False
    """Whether the result has the expected text."""


def connections(folder: Path) -> Json:
    """Create a database in the folder and return the table `[connections]` for it."""
    file = folder / "shop.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(_SHOP)
    return {"shop": {"url": f"sqlite:///{file.as_posix()}", "description": "Orders of a shop."}}


async def ask_questions(gateway: GatewayClient, folder: Path) -> AsyncGenerator[QuestionResult]:
    """Ask the questions one after the other; yields each result."""
    await gateway.wait_for_servers("schema")
    for statements, message, proof in _STEPS:
        await anyio.to_thread.run_sync(_run, folder / "shop.db", statements)
        detection = await gateway.enrich({"prompt": message})
        outcome = QuestionResult(
            message=message,
            intent=detection["intent"],
            decided=detection["stage"],
            confidence=detection["confidence"],
            tool=detection["tool"] or "",
            arguments=detection["arguments"],
            prompt=detection["text"],
            prompt_tokens=detection["tokens"],
        )
        if outcome.tool:
            result = await gateway.execute(f"schema:{outcome.tool}", outcome.arguments)
            answer = str(result["content"][0]["text"])
            outcome = replace(outcome, answer=answer, worked=proof in answer)
        yield outcome


def _run(file: Path, statements: str) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.executescript(statements)
