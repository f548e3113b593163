"""`make release`: what it makes without an image, and what stops it."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.limits import HANG_S
from toolgate import __version__

pytestmark = pytest.mark.xdist_group("release")

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "deploy" / "release.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Output and files of one dry run."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, str(RELEASE), "--dry-run", "--folder", str(folder)],
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr, folder


def test_the_wheel_is_complete_and_names_the_version(made: tuple[str, Path]) -> None:
    wheel = made[1] / f"toolgate_mcp-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = Parser().parsestr(
            archive.read(f"toolgate_mcp-{__version__}.dist-info/METADATA").decode()
        )
    assert metadata["Name"] == "toolgate-mcp"
    assert metadata["Version"] == __version__
    sources = subprocess.run(
        ["git", "ls-files", "src/toolgate"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    expected = {line.removeprefix("src/") for line in sources.stdout.splitlines()}
    assert expected - names == set()


def test_the_source_archive_has_what_a_build_needs_and_nothing_of_the_folder(
    made: tuple[str, Path],
) -> None:
    stem = f"toolgate_mcp-{__version__}"
    with tarfile.open(made[1] / f"{stem}.tar.gz") as archive:
        parts = {name.split("/")[1] for name in archive.getnames()}
    assert parts == {
        *("src", "pyproject.toml", "PKG-INFO", ".gitignore"),
        *("CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md"),
    }


def test_the_bill_of_materials_names_each_package_of_the_image(made: tuple[str, Path]) -> None:
    path = made[1] / f"toolgate-mcp-{__version__}.cdx.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["specVersion"] == "1.6"
    assert document["metadata"]["component"]["name"] == "toolgate-mcp"
    locked = (ROOT / "requirements" / "image.txt").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([a-z0-9.-]+)(?:\[[a-z,]+\])?==([\w.!+]+)", locked, re.MULTILINE))
    assert {(item["name"], item["version"]) for item in document["components"]} == pinned


def test_the_chart_and_the_changes_of_this_version_are_there(made: tuple[str, Path]) -> None:
    with tarfile.open(made[1] / f"toolgate-chart-{__version__}.tgz") as archive:
        names = set(archive.getnames())
    assert {"toolgate/Chart.yaml", "toolgate/values.yaml"} <= names
    assert "toolgate/templates/deployment.yaml" in names
    changes = (made[1] / f"CHANGES-{__version__}.md").read_text(encoding="utf-8")
    assert changes.startswith(f"## {__version__} ")
    assert "toolgate init" in changes
    assert f"build_image.sh localhost/toolgate:{__version__}" in made[0]


def test_a_release_is_refused_while_something_is_not_ready(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "deploy" / "helm" / "toolgate").mkdir(parents=True)
    (checkout / "src" / "toolgate").mkdir(parents=True)
    (checkout / "deploy" / "release.py").write_text(RELEASE.read_text("utf-8"), "utf-8")
    (checkout / "src" / "toolgate" / "__init__.py").write_text('__version__ = "2.0.0"\n', "utf-8")
    (checkout / "CHANGELOG.md").write_text("## 2.0.0 (unreleased)\n", "utf-8")
    chart = checkout / "deploy" / "helm" / "toolgate" / "Chart.yaml"
    chart.write_text('version: 1.9.0\nappVersion: "1.9.0"\n', "utf-8")
    for arguments in (["init", "--quiet"], ["add", "CHANGELOG.md"]):
        subprocess.run(["git", *arguments], cwd=checkout, check=True)
    (checkout / "dist").mkdir()
    (checkout / "dist" / "older.whl").write_text("kept", "utf-8")

    done = subprocess.run(
        [sys.executable, "deploy/release.py"],
        cwd=checkout, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    for words in (
        "CHANGELOG.md says '## 2.0.0 (unreleased)'",
        "Chart.yaml: version is 1.9.0, not 2.0.0",
        "Chart.yaml: appVersion is 1.9.0, not 2.0.0",
        "files are not committed: ",
    ):
        assert words in done.stderr
    assert (checkout / "dist" / "older.whl").read_text("utf-8") == "kept"
