"""Names the files of a pack that are not read, with the reason: a typing error shows at once."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from toolgate.base.pack_files import intents_home

__all__ = ["skipped_files"]

_READ_HERE: Final = frozenset({"pack.toml", "unsupported.txt", "embeddings.list", "rules.list"})
_PARTS: Final = frozenset(
    [
        *("intents", "embeddings", "rules", "tools", "prompts", "resources", "proxies"),
        *("servers.json", "variables.py", "tests.jsonl", "__init__.py", "commands.py"),
    ]
)


def skipped_files(
    folder: Path, intents: Mapping[str, Path], rules: Collection[Path]
) -> Iterator[str]:
    """What a pack's folder holds and nothing reads, one sentence each.

    Args:
        folder: The pack's folder.
        intents: The file that each intent was read from first, by its name.
        rules: The files that rules were read from.
    """
    home = intents_home(folder)
    names = {name.casefold() for name in intents} | {
        path.stem.casefold() for path in intents.values()
    }
    for path in _entries(home):
        if path.name in _READ_HERE or (home == folder and path.name in _PARTS):
            continue
        if (reason := _reason_at_home(path, names, rules)) and (
            home != folder or path.suffix in {".txt", ".toml", ".md"}
        ):
            yield f"{path} is not read: {reason}."
    if home != folder:
        yield from _beside_intents(folder, home)
    for path in _entries(folder / "rules"):
        if path.name not in _READ_HERE and path not in rules:
            reason = (
                "rules are files .md" if path.suffix != ".md" else "rules.list does not name it"
            )
            yield f"{path} is not read: {reason}."


def _reason_at_home(path: Path, names: Collection[str], rules: Collection[Path]) -> str:
    stem = path.stem.casefold()
    # `refunds.de.txt` has the German prompts of `refunds`.
    is_known = stem in names or stem.rpartition(".")[0] in names
    match path.suffix:
        case _ if path.is_dir():
            return "intents are files, not folders"
        case ".md":
            return "" if path in rules else f"there is no {path.stem}.txt beside it"
        case ".txt" | ".toml":
            return "" if is_known else "embeddings.list does not name it, or it is unusable"
        case _:
            return "intents are files .txt, .toml and .md"


def _beside_intents(folder: Path, home: Path) -> Iterator[str]:
    """Files that belong into a folder of the pack, and the folder that another one replaces."""
    for path in _entries(folder):
        if path.name == "embeddings" and path != home and path.is_dir():
            yield f"{path} is not read: there is a folder intents already."
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
