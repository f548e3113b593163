"""Finds packs: in settings, the working folder, installed packages and the built-in ones."""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, TypeAlias

from toolgate.base.pack_files import intents_home, is_pack, packs_at, packs_in, skipped_beside
from toolgate.errors import PackError
from toolgate.intents import builtin_pack_folder

Origin: TypeAlias = Literal["setting", "working folder", "installed", "shipped"]
"""Where a pack was found."""

WRITABLE_ORIGINS: Final = frozenset[Origin]({"setting", "working folder"})
"""Origins of packs that users write."""

GROUP: Final = "toolgate.packs"
"""Entry point group of installed packs: `NAME = "package"`, whose folder is the pack."""

_ALWAYS: Final = frozenset({"schema"})


_READ_HERE: Final = frozenset({"pack.toml", "unsupported.txt", "embeddings.list", "rules.list"})
_FOLDERS: Final = "intents, rules, tools, prompts, resources and proxies"
_PARTS: Final = frozenset(
    [
        *("intents", "embeddings", "rules", "tools", "prompts", "resources", "proxies"),
        *("servers.json", "variables.py", "tests.jsonl", "__init__.py", "commands.py"),
    ]
)


@dataclass(frozen=True, kw_only=True)
class PackLocation:
    """A folder that is a pack, or is expected to be one."""

    folder: Path
    """The folder."""

    origin: Origin
    """Where it was found."""

    problem: str = ""
    """Why it is not a pack; empty if it is."""

    skipped: str = ""
    """Why the folder was not considered to be a pack; empty if it was."""


def find_packs(paths: Iterable[str], *, cwd: Path, local: bool = False) -> list[PackLocation]:
    """Return all locations of packs without duplicates, in order of precedence.

    Args:
        paths: Folders from the settings: each is a pack, or contains packs.
        cwd: Working folder of Toolgate: it is a pack if it has a `pack.toml`, and its folder
            `packs` contains packs.
        local: Skip installed and shipped packs, which rarely change.
    """
    places = [location for path in paths for location in _of_path(Path(path))]
    places += [PackLocation(folder=folder, origin="working folder") for folder in packs_at(cwd)]
    places += _skipped(cwd / "packs", "working folder")
    if not local:
        places += _installed()
        places += [
            PackLocation(folder=builtin_pack_folder(name), origin="shipped")
            for name in builtin_pack_names()
        ]
    by_folder: dict[Path, PackLocation] = {}
    for location in places:
        by_folder.setdefault(location.folder.resolve(), location)
    return list(by_folder.values())


def is_on_by_default(name: str, origin: Origin) -> bool:
    """Whether a pack is enabled if the settings do not name it; most shipped packs are not."""
    return origin != "shipped" or name in _ALWAYS


def builtin_pack_names() -> list[str]:
    """Return the names of the packs that are part of Toolgate."""
    return [folder.name for folder in packs_in(builtin_pack_folder("schema").parent)]


def _of_path(path: Path) -> list[PackLocation]:
    inside = packs_in(path)
    if (path / "pack.toml").is_file():
        inside = [path]
    elif not any((folder / "pack.toml").is_file() for folder in inside):
        is_flat = any(path.glob("*.txt")) or (path / "embeddings.list").is_file()
        if is_pack(path) or (is_flat and not inside):
            inside = [path, *inside] if inside else [path]
    if inside:
        packs = [PackLocation(folder=folder, origin="setting") for folder in inside]
        return packs if inside == [path] else [*packs, *_skipped(path, "setting")]
    reason = "is no folder" if not path.is_dir() else "is no pack and holds none"
    problem = PackError(
        f"{path} {reason}.",
        allowed="A pack is a folder with a file pack.toml, or a folder intents, rules or tools.",
        hint="Correct packs.paths, or make one with: toolgate pack new NAME",
    )
    return [PackLocation(folder=path, origin="setting", problem=str(problem))]


def _skipped(folder: Path, origin: Origin) -> list[PackLocation]:
    return [
        PackLocation(folder=path, origin=origin, skipped=f"{path} {reason}.")
        for path, reason in skipped_beside(folder)
    ]


def _installed() -> list[PackLocation]:
    """Return the packs of installed packages, without importing them."""
    if not any(_may_be_installed(*folder) for folder in _package_folders()):
        return []
    places: list[PackLocation] = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            spec = find_spec(point.module)
        except (ImportError, ValueError):
            spec = None
        folders = list(spec.submodule_search_locations or ()) if spec else []
        if folders:
            places.append(PackLocation(folder=Path(folders[0]), origin="installed"))
            continue
        problem = PackError(
            f"The installed pack {point.name!r} names {point.value!r}, which is not a package.",
            allowed=f"Expected: an entry point NAME = package in the group {GROUP}.",
            hint="Install a corrected version, or remove it.",
        )
        places.append(
            PackLocation(folder=Path(point.value), origin="installed", problem=str(problem))
        )
    return places


def _package_folders() -> Iterator[tuple[Path, int]]:
    """Yield the folders that packages are installed in, and when something in them changed."""
    for entry in sys.path:
        folder = Path(entry or ".").absolute()
        with suppress(OSError):
            yield folder, folder.stat().st_mtime_ns


@lru_cache(maxsize=64)
def _may_be_installed(folder: Path, changed_ns: int) -> bool:
    """Whether a package in this folder has the group; faster than reading all entry points.

    Args:
        folder: Read once, which takes ten milliseconds for a hundred packages.
        changed_ns: Time of its last change: packages that come later are noticed.
    """
    del changed_ns
    try:
        return any(
            GROUP.encode() in path.read_bytes()
            for path in folder.glob("*.dist-info/entry_points.txt")
        )
    except OSError:
        return False


def skipped_files(
    folder: Path,
    intents: Mapping[str, Path],
    rules: Collection[Path],
    problems: Collection[str],
) -> Iterator[str]:
    """Yield a sentence for each file in a pack's folder that is not read, but for broken ones.

    Args:
        folder: The pack's folder.
        intents: The first file that each intent was read from, by its name.
        rules: The files that rules were read from.
        problems: What is wrong with files; such files are not named again.
    """
    broken = [path for path in _entries(intents_home(folder)) if _is_named(path, problems)]
    home = intents_home(folder)
    names = {name.casefold() for name in intents} | {
        path.stem.casefold() for path in intents.values()
    }
    for path in _entries(home):
        if path.name in _READ_HERE or (home == folder and path.name in _PARTS):
            continue
        if path in broken:
            continue
        if (reason := _reason_at_home(path, names, rules, broken)) and (
            home != folder or path.suffix in {".txt", ".toml", ".md"}
        ):
            yield f"{path} is not read: {reason}."
    if home != folder:
        yield from _beside_intents(folder, home)
    for path in _entries(folder / "rules"):
        is_read = path.name in _READ_HERE or path in rules
        if not is_read and not _is_named(path, problems):
            reason = (
                "rules are files .md" if path.suffix != ".md" else "rules.list does not name it"
            )
            yield f"{path} is not read: {reason}."


def _is_named(path: Path, problems: Collection[str]) -> bool:
    return any(problem.startswith((f"{path}:", f"{path} ")) for problem in problems)


def _reason_at_home(
    path: Path, names: Collection[str], rules: Collection[Path], broken: Collection[Path]
) -> str:
    stem = path.stem.casefold()
    # `refunds.de.txt` has the German prompts of `refunds`.
    is_known = stem in names or stem.rpartition(".")[0] in names
    match path.suffix:
        case _ if path.is_dir():
            return "intents are files, not folders"
        case ".md":
            return "" if path in rules else f"there is no {path.stem}.txt beside it"
        case ".txt" | ".toml":
            if is_known:
                return ""
            if (path.parent / "embeddings.list").is_file():
                return "embeddings.list does not name it, or it is unusable"
            beside = [other.name for other in broken if other.stem == path.name.split(".")[0]]
            return f"{beside[0]} has an error" if beside else "it has no messages"
        case _:
            return "intents are files .txt, .toml and .md"


def _beside_intents(folder: Path, home: Path) -> Iterator[str]:
    """Yield why misplaced prompts, other folders and a second folder of prompts are not read."""
    for path in _entries(folder):
        if path.name == "embeddings" and path != home and path.is_dir():
            yield f"{path} is not read: there is a folder intents already."
        elif path.is_dir() and path.name not in _PARTS and not any(path.glob("*.py")):
            # Folders of Python modules are imported by the tools.
            yield f"{path} is not read: a pack has the folders {_FOLDERS}."
        elif path.suffix == ".txt" and path.name not in _READ_HERE:
            yield f"{path} is not read: prompts belong into {home.name}/."


def _entries(folder: Path) -> list[Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        path
        for path in paths
        if path.name[0] not in "._" and path.stem.upper() not in {"README", "LICENSE", "NOTICE"}
    ]
