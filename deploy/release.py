"""Builds everything for a release in `dist/`: `make release`, or `python deploy/release.py --help`.

Nothing is uploaded; the commands for that are printed at the end.
"""

import argparse
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "deploy" / "helm" / "toolgate"


def main() -> int:
    """Check that a release is possible, then build its files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="make all but the image, and only report what would stop a release",
    )
    parser.add_argument("--folder", type=Path, help="for the files of a dry run; it keeps them")
    parser.add_argument("--image", default="localhost/toolgate", help="name of the image")
    parser.add_argument("--no-image", action="store_true", help="leave out the image")
    options = parser.parse_args()

    version = project_version()
    problems = release_problems(version)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    if problems and not options.dry_run:
        print("Nothing was made. See what a release would have: make release ARGS=--dry-run")
        return 1
    if options.dry_run:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.folder or Path(temporary)
            make_files(version, folder)
            print_files(folder)
            print(f"would run: {shlex.join(image_command(version, options.image))}")
        return 0
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    for path in target.glob("*"):
        path.unlink()
    make_files(version, target)
    if not options.no_image:
        make_image(version, options.image, target)
    write_checksums(target)
    print_files(target)
    print_next_steps(version, options.image, target, has_image=not options.no_image)
    return 0


def project_version() -> str:
    """The version in the sources."""
    text = (ROOT / "src" / "toolgate" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert match is not None, "src/toolgate/__init__.py has no __version__"
    return match[1]


def release_problems(version: str) -> list[str]:
    """List what is not ready for a release of this version."""
    problems: list[str] = []
    heading = changelog_heading(version)
    if heading is None:
        problems.append(f"CHANGELOG.md has no heading '## {version} (DATE)'")
    elif not re.search(r"\(\d{4}-\d{2}-\d{2}\)$", heading):
        problems.append(f"CHANGELOG.md says {heading!r}; expected: ## {version} (YYYY-MM-DD)")
    chart = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    for key in ("version", "appVersion"):
        match = re.search(rf'^{key}: "?([^"\n]+)"?$', chart, re.MULTILINE)
        if match is None or match[1] != version:
            stated = match[1] if match else "nothing"
            problems.append(f"deploy/helm/toolgate/Chart.yaml: {key} is {stated}, not {version}")
    changed = git("status", "--porcelain")
    if changed:
        problems.append(f"files are not committed: {', '.join(changed.split()[1::2][:5])}")
    if git("tag", "--list", f"v{version}"):
        problems.append(f"the tag v{version} exists already; raise __version__")
    return problems


def git(*arguments: str) -> str:
    """Return the output of a git command; empty outside a repository."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def changelog_heading(version: str) -> str | None:
    """Return this version's heading in the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(version)} .*$", text, re.MULTILINE)
    return match[0] if match else None


def changes_of(version: str) -> str:
    """Return this version's section of the changelog."""
    heading = changelog_heading(version)
    if heading is None:
        return ""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = text.partition(heading)[2]
    return f"{heading}\n{re.split(r'^## ', section, maxsplit=1, flags=re.MULTILINE)[0].rstrip()}\n"


def make_files(version: str, target: Path) -> None:
    """Build the wheel, source archive, chart, list of components and changes."""
    # The same sources give the same bytes: files get the time of the last commit.
    time = git("log", "-1", "--format=%ct") or "315532800"  # 1980, the earliest year in a zip file
    environment = {**os.environ, "SOURCE_DATE_EPOCH": time}  # noqa: TID251 - a child process
    run(sys.executable, "-m", "hatchling", "build", "--directory", str(target), env=environment)
    make_chart(version, target, mtime=int(time))
    make_component_list(version, target)
    (target / f"CHANGES-{version}.md").write_text(changes_of(version), encoding="utf-8")


def make_chart(version: str, target: Path, *, mtime: int) -> None:
    """Build the Helm chart as `helm package` does."""

    def same_everywhere(item: tarfile.TarInfo) -> tarfile.TarInfo:
        item.uid = item.gid = 0
        item.uname = item.gname = ""
        item.mtime = mtime
        return item

    with tarfile.open(target / f"toolgate-chart-{version}.tgz", "w:gz") as archive:
        for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
            name = f"toolgate/{path.relative_to(CHART).as_posix()}"
            archive.add(path, name, filter=same_everywhere)


def make_component_list(version: str, target: Path) -> None:
    """A software bill of materials (CycloneDX 1.6) of the Python packages in the image.

    It does not name the packages of the base image.
    """
    run(
        *(sys.executable, "-m", "cyclonedx_py", "requirements"),
        *("requirements/image.txt", "--pyproject", "pyproject.toml", "--mc-type", "application"),
        *("--output-reproducible", "--output-format", "JSON", "--spec-version", "1.6"),
        *("--output-file", str(target / f"toolgate-mcp-{version}.cdx.json")),
    )


def image_command(version: str, image: str) -> list[str]:
    """Return the command that builds the image."""
    return [str(ROOT / "deploy" / "build_image.sh"), f"{image}:{version}"]


def make_image(version: str, image: str, target: Path) -> None:
    """Build the image, test it, and write it to a file."""
    run(*image_command(version, image), *shlex.split(os.environ.get("IMAGE_OPTIONS", "")))  # noqa: TID251
    run(str(ROOT / "deploy" / "check_image.sh"), f"{image}:{version}")
    archive = target / f"toolgate-image-{version}.tar"
    run("buildah", "push", f"{image}:{version}", f"docker-archive:{archive}:{image}:{version}")


def write_checksums(target: Path) -> None:
    """Return the SHA-256 of each file, in the format of `sha256sum --check`."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(target.iterdir())
    ]
    (target / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def print_files(target: Path) -> None:
    """List what was built."""
    for path in sorted(target.iterdir()):
        print(f"made: {path.name} ({path.stat().st_size:,} bytes)")


def print_next_steps(version: str, image: str, target: Path, *, has_image: bool) -> None:
    """Describe what a maintainer does with the files."""
    name = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    stem = name.replace("-", "_")
    print("To publish:")
    print(f"  git tag --sign v{version} --message v{version} && git push origin v{version}")
    print(f"  twine upload {target}/{stem}-{version}*")
    if has_image:
        print(f"  buildah push {image}:{version} docker://REGISTRY/toolgate:{version}")


def run(*command: str, env: dict[str, str] | None = None) -> None:
    """Run a command in the repository; if it fails, so does this program."""
    done = subprocess.run(command, cwd=ROOT, env=env, check=False)
    if done.returncode:
        raise SystemExit(f"This failed with status {done.returncode}: {shlex.join(command)}")


if __name__ == "__main__":
    sys.exit(main())
