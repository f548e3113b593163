"""`toolgate pack servoy`: functions of the pack that need no gateway."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from toolgate.errors import ArgumentError
from toolgate.packs.builtin.servoy.files.roundtrip import (
    SUFFIXES,
    RoundtripResult,
    check_roundtrip,
)

app = typer.Typer(help="Check files of Servoy workspaces.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Check files of Servoy workspaces."""


@app.command()
def roundtrip(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder, or one file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,  # noqa: FBT002
) -> int:
    """Parse every .rel, .val, .dbi, .obj and .tbl file below a folder and write it again in memory.

    Nothing on disk is changed. Files that cannot be parsed, or are not reproduced byte for byte,
    count as different; if there are any, the exit status is 1.
    """
    if not path.exists():
        raise ArgumentError(f"There is no file or folder {str(path)!r}.", hint="Choose another.")
    tried = list(check_roundtrip(path))
    different = [result for result in tried if result.problem]
    if as_json:
        typer.echo(json.dumps(_counts(tried, path), indent=2))
    else:
        _show(tried, different, path)
    return 1 if different else 0 if tried else 3


def _show(tried: list[RoundtripResult], different: list[RoundtripResult], root: Path) -> None:
    files, same = _by_suffix(tried), _by_suffix([result for result in tried if not result.problem])
    for suffix in SUFFIXES:
        if files[suffix]:
            typer.echo(f"{suffix}  {same[suffix]} of {files[suffix]} identical")
    for result in different:
        typer.echo(f"{_display_path(result.path, root)}: {result.problem}")
    if not tried:
        typer.echo(f"No {' '.join(SUFFIXES)} files below {root}.")


def _counts(tried: list[RoundtripResult], root: Path) -> dict[str, Any]:
    """Return counts of all files, and of those with each extension."""
    groups = {suffix: [e for e in tried if e.path.suffix.lower() == suffix] for suffix in SUFFIXES}
    return {
        **_count(tried, root),
        "extensions": {
            suffix.lstrip("."): _count(group, root) for suffix, group in groups.items() if group
        },
    }


def _count(tried: list[RoundtripResult], root: Path) -> dict[str, Any]:
    different = [_display_path(result.path, root) for result in tried if result.problem]
    return {
        "files": len(tried),
        "identical": len(tried) - len(different),
        "different": different,
    }


def _by_suffix(tried: list[RoundtripResult]) -> Counter[str]:
    return Counter(result.path.suffix.lower() for result in tried)


def _display_path(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path != root else path.name
