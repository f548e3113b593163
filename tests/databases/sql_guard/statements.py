"""Statements with the verdict that they must get."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"
TESTED = ("postgres", "sqlite", "oracle")


@dataclass(frozen=True)
class Statement:
    key: str
    dialect: str
    sql: str
    allowed: bool


def statements() -> Iterator[Statement]:
    """Those of the requirements, one for each dialect that they are for, and our own."""
    for name in ("statements", "own"):
        for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            for dialect in TESTED if row["dialect"] == "any" else (row["dialect"],):
                yield Statement(f"{row['id']}-{dialect}", dialect, row["sql"], row["allowed"])
