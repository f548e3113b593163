"""Examples are files that run, and the pages show them as they are."""

import inspect
import os
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from tests.limits import HANG_S
from toolgate.settings import Settings
from toolgate.testing import memory_app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "programs.md"
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
    page = PAGE.read_text(encoding="utf-8")
    example = (ROOT / "examples" / "agent.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in page


async def test_the_methods_of_the_page_exist_and_return_what_it_says() -> None:
    """It named methods of the gateway that are those of its parts."""
    table = PAGE.read_text(encoding="utf-8").partition("| method of `gateway` |")[2]
    rows = re.findall(r"^\| `([\w.]+)\(([^|]*)\)` \| (?:an? )?(.*?) \|", table, re.MULTILINE)
    assert len(rows) >= 6
    async with memory_app({}, Settings()) as app:
        for path, parameters, returned in rows:
            method = attrgetter(path)(app.gateway)
            names = re.findall(r"\w+", re.sub(r"\w*\(.*\)", "request", parameters))
            assert list(inspect.signature(method).parameters)[: len(names)] == names, path
            kind = re.match(r"`(\w+)`", returned)
            if kind is None:
                continue
            declared = get_type_hints(method)["return"]
            (declared,) = get_args(declared) or (declared,)
            assert declared.__name__ == kind[1], path
            for member in re.findall(r"`(\w+)(?:\(\))?`", returned)[1:]:
                assert member in declared.__annotations__ or hasattr(declared, member), member
