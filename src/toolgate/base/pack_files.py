"""Finds pack folders, and reads and extends their files: UTF-8, with file and line in errors.

It knows nothing of intents, rules or tools; the code for each kind of file defines its contents.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

from toolgate.errors import PackError

MOST_BYTES: Final = 5_000_000
"""Longest text of a pack in bytes (chosen: several hundred prompts take 20 kB)."""

_MOST_TABLE_BYTES: Final = 1_000_000
"""Longest TOML file in bytes (chosen: handwritten tables are far smaller)."""

_PARTS: Final = (
    *("intents", "embeddings", "rules", "tools", "programs", "prompts", "resources", "proxies"),
    "servers.json",
)

_ABOUT: Final = frozenset({"README", "LICENSE", "LICENCE", "CHANGELOG", "CONTRIBUTING", "NOTICE"})
"""Names of files about a folder, which are never packs or intents."""

_T = TypeVar("_T")


class PackFile:
    """A text file of a pack, read on first use."""

    def __init__(self, path: Path, *, text: str | None = None) -> None:
        """Refer to a file.

        Args:
            path: Its path.
            text: Its content, if already known.
        """
        self.path = path
        self._text = text

    @property
    def text(self) -> str:
        """The content, without a byte order mark.

        Raises:
            PackError: The file cannot be read, is too large, or is not UTF-8.
        """
        if self._text is None:
            self._text = self._read(MOST_BYTES, "Some hundred lines are enough: divide it.")
        return self._text

    def prose(self) -> str:
        """The content of a file meant for people.

        Raises:
            PackError: As for `text`, or the content is not text.
        """
        where = self.text.find("\0")
        if where >= 0:
            self.fail(self.text.count("\n", 0, where) + 1, "this is not text", "Save it as UTF-8.")
        return self.text

    def lines(self) -> tuple[str, ...]:
        """The stripped lines, without empty lines and comments (`#`).

        Raises:
            PackError: As for `prose`.
        """
        lines = (line.strip() for line in self.prose().splitlines())
        return tuple(line for line in lines if line and not line.startswith("#"))

    def table(self) -> "PackTable":
        """The content as a TOML table.

        Raises:
            PackError: As for `text`, or the content is not TOML.
        """
        if self._text is None:
            self._text = self._read(
                _MOST_TABLE_BYTES, "Example prompts belong into a .txt file beside it."
            )
        try:
            return PackTable(tomllib.loads(self.text), self)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            match = re.search(r"at line (\d+)", str(error))
            line = int(match[1]) if match else None
            if "at end of document" in str(error):
                line = self.text.rstrip().count("\n") + 1
            reason = re.sub(r" \(at .*\)$", "", str(error)) or "it is nested too deeply"
            where = "" if line is None else f":{line}"
            raise PackError(
                f"{self.path}{where}: this is not valid TOML: {reason}.", hint="Correct the line."
            ) from error

    def fail(self, line: int | None, reason: str, hint: str) -> NoReturn:
        """Report a problem with a line, or with the whole file if `line` is None.

        Raises:
            PackError: Always.
        """
        where = "" if line is None else f":{line}"
        raise PackError(f"{self.path}{where}: {reason}.", hint=hint)

    def line(self, key: str) -> int | None:
        """The line number of a key of the table, if it can be found."""
        match = re.search(
            rf"^\s*(?:{re.escape(key)}\s*=|\[.*\b{re.escape(key)}\b)", self.text, re.MULTILINE
        )
        return self.text.count("\n", 0, match.end()) + 1 if match else None

    def _read(self, most_bytes: int, hint: str) -> str:
        try:
            # Reading a pipe or a device may block forever.
            if self.path.exists() and not self.path.is_file():
                self.fail(None, "this is not a file", "Put a file there, or remove it.")
            with self.path.open("rb") as opened:
                content = opened.read(most_bytes + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PackError(
                f"{self.path} cannot be read: {reason}.",
                hint="Check that it exists and is readable.",
            ) from error
        if len(content) > most_bytes:
            raise PackError(f"{self.path} is larger than {most_bytes:,} bytes.", hint=hint)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise PackError(
                f"{self.path}:{line}: this is not UTF-8 text.", hint="Save the file as UTF-8."
            ) from error


class PackTable:
    """A TOML table of a file; its errors name file and line."""

    def __init__(self, content: dict[str, Any], file: PackFile) -> None:
        self.content = content
        self.file = file

    def fail(self, key: str, reason: str, hint: str) -> NoReturn:
        """Report a problem with a key.

        Raises:
            PackError: Always.
        """
        self.file.fail(self.file.line(key), reason, hint)

    def only(self, keys: frozenset[str]) -> None:
        """Reject unknown keys."""
        for key in self.content:
            if key not in keys:
                allowed = ", ".join(sorted(keys))
                self.fail(key, f"there is no key {key!r} here", f"Allowed: {allowed}.")

    def take(self, key: str, kind: Callable[..., _T], default: _T) -> _T:
        """A value of a simple type."""
        value = self.content.get(key, default)
        if type(value) is not kind:
            type_names = {str: "a text", int: "a whole number", bool: "true or false"}
            expected = type_names.get(cast("Any", kind), "something else")
            self.fail(key, f"{key!r} is {value!r}", f"It has to be {expected}.")
        return cast("_T", value)

    def number(self, key: str) -> float | None:
        """A number; None if the key is missing."""
        value = self.content.get(key)
        if value is not None and type(value) not in {int, float}:
            self.fail(key, f"{key!r} is {value!r}", "It has to be a number.")
        return value

    def share(self, key: str) -> float | None:
        """A number in [0, 1]; None if the key is missing."""
        value = self.number(key)
        if value is not None and not 0 <= value <= 1:
            self.fail(key, f"{key!r} is {value!r}", "It has to be 0 to 1.")
        return None if value is None else float(value)

    def choice(self, key: str, allowed: tuple[Any, ...], default: str | None = None) -> Any:
        """One of several allowed words."""
        value = self.content.get(key, default)
        if value not in allowed:
            options = ", ".join(repr(value_allowed) for value_allowed in allowed)
            self.fail(key, f"{key!r} is {value!r}", f"Allowed: {options}.")
        return value

    def strings(self, key: str) -> list[str]:
        """A list of non-empty strings."""
        value = self.content.get(key, [])
        plain = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(item, str) and item.strip() for item in plain):
            self.fail(
                key, f"{key!r} is not a list of strings", f'Write it as: {key} = ["...", "..."]'
            )
        return cast("list[str]", plain)

    def sub(self, key: str) -> "PackTable":
        """A nested table; empty if the key is missing."""
        value = self.content.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, f"{key!r} is not a table", f"Write it as a part of the file: [{key}]")
        return PackTable(cast("dict[str, Any]", value), self.file)

    def tables(self, key: str) -> "list[PackTable]":
        """A list of tables."""
        value = self.content.get(key, [])
        plain = cast("list[object]", value) if isinstance(value, list) else [None]
        if not all(isinstance(item, dict) for item in plain):
            self.fail(key, f"{key!r} is not a list of tables", f"Write each as: [[{key}]]")
        return [PackTable(cast("dict[str, Any]", item), self.file) for item in plain]


def is_pack(folder: Path) -> bool:
    """Whether a folder looks like a pack."""
    return (folder / "pack.toml").is_file() or _has_parts(folder) or _has_pair(folder)


def packs_in(folder: Path) -> list[Path]:
    """The packs in a folder; empty if it cannot be read."""
    try:
        return sorted(
            path for path in folder.iterdir() if path.name[0] not in "._" and is_pack(path)
        )
    except OSError:
        return []


def packs_at(folder: Path) -> list[Path]:
    """The packs of a working folder: itself if it has a `pack.toml`, and those in `packs`."""
    is_itself = (folder / "pack.toml").is_file() and (_has_parts(folder) or _has_pair(folder))
    home = folder / "packs"
    flat = [home] if _has_pair(home) and not (home / "pack.toml").is_file() else []
    return [*([folder] if is_itself else []), *flat, *packs_in(home)]


def skipped_beside(folder: Path) -> list[tuple[Path, str]]:
    """Entries of a folder of packs that are not packs, each with the reason; sorted."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    skipped: list[tuple[Path, str]] = []
    is_flat = _has_pair(folder)
    for path in entries:
        if path.name[0] in "._" or path.stem.upper() in _ABOUT or is_pack(path):
            continue
        if path.is_dir():
            reason = "has no pack.toml, no folder intents, rules or tools, and no x.txt beside x.md"
            skipped.append((path, reason))
        elif not is_flat:
            skipped.append((path, "is a file; a pack is a folder"))
    return skipped


def intents_home(folder: Path) -> Path:
    """The folder of a pack's intent files: `intents`, or the pack's own if it has only prompts.

    Args:
        folder: The pack's folder.
    """
    for name in ("intents", "embeddings"):
        if (folder / name).is_dir():
            return folder / name
    is_flat = (folder / "embeddings.list").is_file() or not (folder / "pack.toml").is_file()
    return folder if is_flat or _has_pair(folder) else folder / "intents"


def _has_pair(folder: Path) -> bool:
    """Whether the folder contains `x.txt` and `x.md`: an intent with its rules."""
    try:
        names = {path.name for path in folder.iterdir() if path.suffix in {".txt", ".md"}}
    except OSError:
        return False
    return any(f"{name.removesuffix('.txt')}.md" in names for name in names if name.endswith("txt"))


def _has_parts(folder: Path) -> bool:
    return any((folder / part).exists() for part in _PARTS)


def pack_table(folder: Path) -> PackTable:
    """The table in the `pack.toml` of a folder; empty if there is none.

    Raises:
        PackError: The file is invalid.
    """
    path = folder / "pack.toml"
    return PackFile(path).table() if path.is_file() else PackTable({}, PackFile(path, text=""))


class Trying:
    """Decides whether an invalid file stops the reading, or is reported and skipped.

    ```python
    with Trying(problems.append):
        table = PackFile(path).table()
    ```
    """

    def __init__(self, report: Callable[[PackError], None] | None = None) -> None:
        """Without `report`, errors are raised."""
        self._report = report

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if self._report is None or not isinstance(error, PackError):
            return False
        self._report(error)
        return True


def files_in(folder: Path, suffix: str) -> list[Path]:
    """The files of a folder with a suffix, sorted; empty if the folder does not exist.

    Raises:
        PackError: The folder cannot be read.
    """
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix == suffix and not path.name.startswith(".")
        )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise PackError(
            f"{folder} cannot be read: {error.strerror}.", hint="Check its permissions."
        ) from error


def files_named(manifest: Path, folder: Path, suffix: str, trying: Trying) -> list[Path]:
    """The files that a manifest lists, one per line; lines with another suffix are ignored.

    Raises:
        PackError: The manifest is invalid, or names a file that is not in the folder.
    """
    files: list[Path] = []
    for line in PackFile(manifest).lines():
        if not line.endswith(suffix):
            continue
        with trying:
            path = folder / line
            if Path(line).name != line or not path.is_file():
                raise PackError(
                    f"{manifest}: there is no file {line!r} in {folder}.",
                    hint="Correct the line, or add the file.",
                )
            files.append(path)
    return files


def append_lines(path: Path, lines: Sequence[str]) -> int:
    """Add lines to a file of a pack unless it has them already; return how many were added.

    Raises:
        PackError: The file cannot be written.
    """
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        present = {line.strip().casefold() for line in text.splitlines()}
        fresh = [line for line in lines if line.casefold() not in present]
        if fresh:
            gap = "" if not text or text.endswith("\n") else "\n"
            with path.open("a", encoding="utf-8") as file:  # whatever happens, nothing is lost
                file.write("\n".join([f"{gap}{fresh[0]}", *fresh[1:], ""]))
    except (OSError, UnicodeError) as error:
        raise PackError(
            f"{path} cannot be written: {error}.", hint="Check its permissions."
        ) from error
    return len(fresh)
