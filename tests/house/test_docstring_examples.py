"""Examples in docstrings run: what a reader copies from them works."""

import ast
import builtins
import inspect
import re
import shutil
import symtable
import textwrap
from collections.abc import Iterator
from datetime import date
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import toolgate
from toolgate.intents import builtin_pack_folder, load_intents
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.settings import Settings

PACKAGE = Path(toolgate.__file__).parent
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


class _Yours:
    """What a reader of an example brings along; never called."""


PLACEHOLDERS = dict.fromkeys(
    ("Mine", "Options", "build", "my_double", "open_solution", "serve_mine", "services"), _Yours
)


def docstring_examples() -> Iterator[Any]:
    """Each fenced example of each docstring, with the name of its module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "```python" not in text:
            continue
        module = ".".join(["toolgate", *path.relative_to(PACKAGE).with_suffix("").parts])
        module = module.removesuffix(".__init__")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for example in FENCE.findall(ast.get_docstring(node) or ""):
                    where = f"{module}:{getattr(node, 'name', '')}".rstrip(":")
                    yield pytest.param(module, textwrap.dedent(example), id=where)


EXAMPLES = list(docstring_examples())


@pytest.mark.parametrize(("module", "example"), EXAMPLES)
async def test_the_example_of_a_docstring_runs(
    module: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pack = tmp_path / "packs" / "sales"
    # With a few prompts: learning those in all languages takes seven seconds.
    english = shutil.ignore_patterns("*.[a-z][a-z].txt")
    shutil.copytree(builtin_pack_folder("schema"), pack, ignore=english)
    for file in (pack / "intents").glob("*.txt"):
        lines = file.read_text("utf-8").splitlines(keepends=True)
        file.write_text("".join(lines[:20]), "utf-8")
    names = {
        "date": date,
        "embedder": BundledEmbedder(),
        "folder": tmp_path,
        "intents": load_intents(pack),
        "path": pack / "pack.toml",
        "problems": [],
        "pytest": pytest,
        "settings": Settings(),
        "today": date(2025, 10, 21),
        "Path": Path,
        **PLACEHOLDERS,
        **vars(import_module(module)),
    }
    code = compile(example, module, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result

    assert unresolved(example, names) == set()
    for suite in suites_defined_in(code, names):
        given = {name for name in vars(suite) if not name.startswith("__")}
        assert given <= asked_for_by(suite.__mro__[1])


def unresolved(example: str, names: dict[str, Any]) -> set[str]:
    """Global names that functions of the example use and that do not exist."""
    tables = [symtable.symtable(example, "example", "exec")]
    missing: set[str] = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        missing |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_global() and symbol.get_name() not in names
        }
    return {name for name in missing if not hasattr(builtins, name)}


def asked_for_by(contract: type) -> set[str]:
    """What a subclass of a suite may fill in: its attributes, and the fixtures of its tests."""
    tests = [test for _, test in inspect.getmembers(contract, inspect.isfunction)]
    fixtures = {name for test in tests for name in inspect.signature(test).parameters}
    return {*dir(contract), *inspect.get_annotations(contract), *fixtures}


def suites_defined_in(code: CodeType, names: dict[str, Any]) -> Iterator[type]:
    """Classes of the example that fill in a contract suite."""
    for name in code.co_names:
        if isinstance(names.get(name), type) and name.startswith("Test"):
            yield names[name]
