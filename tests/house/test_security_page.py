"""The page about security promises nothing that no test shows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [
    (cells[0], cells[2], cells[3])
    for line in PAGE.partition("## Threats and mitigations")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ") and (cells := [cell.strip() for cell in line.strip("|").split(" | ")])
    if cells[0] != "attack"
]


def is_there(name: str) -> bool:
    """Whether what a row names is a file or folder with tests, or a contract suite."""
    if name.startswith("toolgate.testing."):
        return (ROOT / "src" / f"{name.replace('.', '/')}.py").is_file()
    path = ROOT / name
    if name.startswith("tests/") and path.is_dir():
        return any(path.rglob("test_*.py"))
    return name.startswith("tests/") and path.is_file()


@pytest.mark.parametrize(
    ("attack", "by_default", "shown_by"), ROWS, ids=[attack[:40] for attack, *_ in ROWS]
)
def test_each_attack_says_whether_its_defense_is_on_and_names_tests_that_exist(
    attack: str, by_default: str, shown_by: str
) -> None:
    assert re.match("yes$|no: `|only for ", by_default), by_default
    names = re.findall(r"`([^`]+)`", shown_by)
    assert names, f"no test is named for {attack!r}"
    assert [name for name in names if not is_there(name)] == []


SUMMARY = {
    "Access": [
        "tests/server/test_http.py",
        "tests/server/test_proxied.py",
        "tests/cli/test_serve.py",
    ],
    "Your client's credentials": ["tests/upstream", "tests/server/test_auth.py"],
    "The environment": ["tests/contracts/test_transport_stdio.py"],
    "Secrets in configuration": ["tests/settings/test_settings.py", "tests/cli/test_config.py"],
    "Arguments and results": ["tests/audit/test_destinations.py", "tests/audit/test_recorder.py"],
    "Tool descriptions": ["tests/catalog/scanner", "tests/server/test_quarantined_definitions.py"],
    "The gateway itself": ["tests/server/test_refusals.py", "tests/server/test_replicas.py"],
}
"""What `SECURITY.md` says is protected, and the tests that show it."""


def test_each_promise_of_the_summary_has_tests() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promises = text.partition("## What Toolgate protects")[2].partition("\n## ")[0]

    assert re.findall(r"^\* \*\*(.+?)\.\*\*", promises, re.MULTILINE) == [*SUMMARY]
    assert [name for names in SUMMARY.values() for name in names if not is_there(name)] == []


def test_the_page_has_its_tables() -> None:
    assert len(ROWS) > 20
