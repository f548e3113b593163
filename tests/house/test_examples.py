"""Examples are files that run, and the pages show them as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANG_S

ROOT = Path(__file__).parents[2]
TOOLS = '''
from toolgate.upstream import tool

@tool
def list_files(folder: str) -> list[str]:
    """List the files of a folder."""
    return []
'''


@pytest.mark.real
def test_the_example_of_the_python_page_finds_tools(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TOOLS, encoding="utf-8")
    config = '[server.mine]\npython = "mine.py:list_files"\n'
    (tmp_path / "toolgate.toml").write_text(config, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "agent.py"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    assert ran.stdout.startswith("mine:list_files(folder)")
    assert ran.stderr == ""


def test_the_page_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8")
    example = (ROOT / "examples" / "agent.py").read_text(encoding="utf-8")
    for line in page.split("```python\n")[1].split("```")[0].splitlines():
        assert line.strip() in example, line
