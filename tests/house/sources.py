"""The sources of the package, parsed once per process.

Tests that read them are in the group `structure`, so that this is one process.
"""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "toolgate"
MODULES = sorted(SOURCES.rglob("*.py"))


def path_of(module: Path) -> str:
    return module.relative_to(SOURCES).as_posix()


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))
