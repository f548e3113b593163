"""What every file of the house promises, read from the files themselves."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import toolgate
from tests.house.sources import MODULES, ROOT, SOURCES, path_of, tree_of
from toolgate import errors
from toolgate.base import plugins
from toolgate.cli.root import COMMANDS

DOCS = ROOT / "docs"
SEAMS = tuple(plugins.FOLDERS)
"""Folders whose modules are implementations."""

IMPLEMENTATIONS = [(kind, name) for kind in SEAMS for name in plugins.available(kind)]


def generator(name: str) -> ModuleType:
    """A program of `docs/` that makes a page."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loaded_by(code: str) -> set[str]:
    """Modules in memory after a fresh interpreter ran `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('LOADED', *sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.rpartition("LOADED")[2].split())


# Names


@pytest.mark.xdist_group("structure")
def test_what_a_module_exports_exists() -> None:
    exported = {path_of(module): names_exported_by(tree_of(module).body) for module in MODULES}
    twice = {path: names for path, names in exported.items() if len(set(names)) < len(names)}
    missing = {
        path: names
        for module in MODULES
        if (path := path_of(module)) and exported[path]
        if "__getattr__" not in (defined := names_defined_by(tree_of(module).body))
        if (names := set(exported[path]) - defined)
    }

    assert twice == {}
    assert missing == {}


@pytest.mark.xdist_group("structure")
def test_only_packages_list_what_they_export() -> None:
    """The names of a module say it themselves: private ones begin with an underscore."""
    listing = {
        path_of(module)
        for module in MODULES
        if module.name != "__init__.py" and names_exported_by(tree_of(module).body)
    }

    assert listing == {"intents/dates/vocabulary.py"}


def names_exported_by(body: list[ast.stmt]) -> list[str]:
    """The names in `__all__`."""
    names: list[str] = []
    for node in body:
        if targets_of(node) == {"__all__"} and (value := getattr(node, "value", None)) is not None:
            names = ast.literal_eval(value)
    return names


def names_defined_by(body: list[ast.stmt]) -> set[str]:
    """The names that a module assigns, defines or imports."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(ast.Module(body, []))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    defined = {node.name for node in body if isinstance(node, kinds)}
    return imported.union(defined, *map(targets_of, body))


def targets_of(node: ast.stmt) -> set[str]:
    """The names that a statement assigns."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_the_front_door_is_sorted_and_real() -> None:
    assert sorted(toolgate.__all__) == toolgate.__all__
    assert all(hasattr(toolgate, name) for name in toolgate.__all__)


@pytest.mark.xdist_group("structure")
def test_every_field_of_a_public_value_says_what_it_means() -> None:
    """Meaning, unit, default and danger stand in the string below it."""
    silent = [
        f"{path.relative_to(SOURCES)}: {value.name}.{field}"
        for path in MODULES
        if not any(part.startswith("_") for part in path.relative_to(SOURCES).parts)
        for value in tree_of(path).body
        if isinstance(value, ast.ClassDef) and not value.name.startswith("_")
        if any("dataclass" in ast.unparse(mark) for mark in value.decorator_list)
        for field in undescribed(value)
    ]

    assert silent == []


def undescribed(value: ast.ClassDef) -> Iterator[str]:
    for node, below in zip(value.body, [*value.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = (
                isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            )
            if not said and not node.target.id.startswith("_"):
                yield node.target.id


# Seams


@pytest.mark.parametrize(
    ("kind", "name"),
    # Other tests of a group load the same library.
    [pytest.param(*pair, marks=pytest.mark.xdist_group(pair[1])) for pair in IMPLEMENTATIONS],
)
def test_every_implementation_has_options_build_and_a_contract_test(kind: str, name: str) -> None:
    try:
        module = import_module(f"toolgate.{plugins.FOLDERS[kind]}.{name}")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("toolgate"):
            raise
        pytest.skip(f"{error.name} is not installed: .venv is older than pyproject.toml")

    assert is_dataclass(module.Options)
    assert callable(module.build)
    assert (ROOT / "tests" / "contracts" / f"test_{kind}_{name}.py").is_file()


def test_opening_a_seam_loads_none_of_its_implementations() -> None:
    """What is not configured costs nothing."""
    loaded = loaded_by(
        f"import {', '.join(f'toolgate.{folder}' for folder in plugins.FOLDERS.values())}"
    )

    assert {
        f"toolgate.{plugins.FOLDERS[kind]}.{name}" for kind, name in IMPLEMENTATIONS
    } & loaded == set()


def test_importing_toolgate_costs_nothing() -> None:
    heavy = {"mcp", "sqlalchemy", "numpy", "aiohttp", "rich", "typer", "pydantic", "anyio"}

    assert loaded_by("import toolgate") & heavy == set()


# Errors


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    """The docstring of `errors` is what a reader sees first."""

    def draw(error: type[errors.ToolgateError], depth: int = 0) -> list[str]:
        below = [sub for sub in error.__subclasses__() if sub.__module__ == errors.__name__]
        lines = ["  " * depth + error.__name__]
        return [*lines, *(line for sub in below for line in draw(sub, depth + 1))]

    assert errors.__doc__ is not None
    assert errors.__doc__.split("```")[1].strip() == "\n".join(draw(errors.ToolgateError))


def test_every_error_has_its_own_code_and_a_heading_in_troubleshooting() -> None:
    codes = Counter(error.code for error in generator("generate_errors").ERRORS.values())
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## ([a-z_]+)$", page, re.MULTILINE)

    assert max(codes.values()) == 1
    assert sorted(headings) == sorted(codes)


def test_troubleshooting_has_every_text_that_the_code_raises() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")

    assert page == generator("generate_errors").troubleshooting(), "run: make docs"


# Documentation


def test_the_page_of_commands_is_the_one_that_the_command_line_makes() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")

    assert page == generator("generate_commands").commands(), "run: make docs"
    assert all(f"## `toolgate {name}`" in page for name in COMMANDS)


def test_every_page_can_be_reached_from_the_first_one() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        for link in links:
            target = Path(os.path.normpath(page.parent / link))
            assert target.exists(), f"{page.name} links to {link}, which is not there"
            waiting.append(target)

    assert set(DOCS.rglob("*.md")) <= seen


def test_no_file_names_a_registry_or_the_machine_it_was_made_on() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        names = [str(path.relative_to(ROOT)) for path in [*MODULES, *DOCS.rglob("*.md")]]
    else:
        names = [name for name in listed.stdout.split("\0") if name]
    registries = ("pypi", "npmjs", "pythonhosted", "registry.yarnpkg", "crates")
    unwanted = re.compile(
        r"https?://[\w.-]*(?:" + "|".join(registries) + r")\.(?:org|com|io)|/work/(?:main|shared)"
    )

    found = [
        f"{name}: {match[0]}"
        for name in names
        if (ROOT / name).is_file()
        if (match := unwanted.search((ROOT / name).read_text(encoding="utf-8", errors="replace")))
    ]

    assert found == []
