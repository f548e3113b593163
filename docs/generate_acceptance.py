"""Generates `acceptance.md` from tests that are named after a row.

`acceptance.toml` describes in our words what a row requires; which tests prove it is read from the
tests: `test_st_1_…` proves ST-1.
"""

import re
import sys
import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent / "tests"
PAGE = FOLDER / "acceptance.md"

INTRODUCTION = """\
# Requirements of chat turns, and their tests

<!-- Made by docs/generate_acceptance.py from docs/acceptance.toml and the names of tests. -->

Each row is a requirement of [chat turns](chat.md). The names of its tests begin with the id of the
row. If a row is about what a model or a client sees, the tests use real HTTP on both sides.
"""


def acceptance() -> str:
    """Return the page."""
    rows = tomllib.loads((FOLDER / "acceptance.toml").read_text(encoding="utf-8"))
    found = tests_by_row()
    parts = [INTRODUCTION]
    for section in rows.values():
        parts.append(f"## {section['title']}\n")
        lines = ["| Row | Requirement | Tests |", "| --- | --- | --- |"]
        for row, duty in section["rows"].items():
            tests = "<br>".join(found.get(row, [])) or "none yet"
            lines.append(f"| {row} | {duty} | {tests} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def rows() -> list[str]:
    """The IDs of all rows."""
    text = (FOLDER / "acceptance.toml").read_text(encoding="utf-8")
    return [row for section in tomllib.loads(text).values() for row in section["rows"]]


def tests_by_row() -> dict[str, list[str]]:
    """Names of the tests for each row, with their files."""
    known = {f"{row.lower().replace('-', '_')}_": row for row in rows()}
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in re.findall(r"def test_(\w+)\(", path.read_text(encoding="utf-8")):
            fitting = [start for start in known if name.startswith(start)]
            if fitting:
                row = known[max(fitting, key=len)]
                place = path.relative_to(TESTS.parent).as_posix()
                found.setdefault(row, []).append(f"`{place}::test_{name}`")
    return found


if __name__ == "__main__":
    if "--missing" in sys.argv:
        print("\n".join(row for row in rows() if row not in tests_by_row()))
    else:
        PAGE.write_text(acceptance(), encoding="utf-8")
