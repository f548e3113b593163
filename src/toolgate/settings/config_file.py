"""A parsed configuration file: its text, its value, and the location of each key."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from toolgate.errors import SettingError
from toolgate.settings.notations import jsonc
from toolgate.types import Json, json_object

KeyPath = tuple[str | int, ...]
"""Names (and positions in lists) from the root of a document to a value."""

_MAX_BYTES = 64 * 2**20
"""Bytes (chosen: far above any configuration; a larger file is refused unread)."""


@dataclass(frozen=True, kw_only=True)
class ConfigDocument:
    """A successfully parsed TOML, JSON or YAML file."""

    path: Path
    """Path of the file."""

    text: str
    """Contents of the file."""

    root: Json
    """The outermost table or object."""

    is_toml: bool
    """Whether it is TOML; otherwise JSON with comments, or YAML."""

    @property
    def is_yaml(self) -> bool:
        """Whether it is YAML."""
        return not self.is_toml and _is_yaml(self.path)

    def spans(self) -> Mapping[KeyPath, jsonc.TextSpan]:
        """Positions of all values of a JSON or YAML file, by path."""
        return _yaml().spans(self.text) if self.is_yaml else jsonc.spans(self.text)

    def location(self, path: KeyPath = ()) -> str:
        """Return `FILE, line N` of a key, or of its nearest parent that can be found."""
        line = self.line(path)
        return f"{self.path}, line {line}" if line else str(self.path)

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of its nearest parent; 0 if neither can be found."""
        return _toml_line(self.text, path) if self.is_toml else self._line(path)

    def _line(self, path: KeyPath) -> int:
        try:
            spans = self.spans()
        except (ValueError, IndexError):
            return 0
        for length in range(len(path), 0, -1):
            if path[:length] in spans:
                return self.text.count("\n", 0, spans[path[:length]].key_start) + 1
        return 1 if self.text.strip() else 0

    def error(
        self, path: KeyPath, failed: str, *, allowed: str = "", hint: str = ""
    ) -> SettingError:
        """Create an error that names the file and the line of a key."""
        error = SettingError(f"{self.location(path)}: {failed}", allowed=allowed, hint=hint)
        error.at = (self.path, path)
        return error


def read_document(path: Path) -> ConfigDocument:
    """Read and parse a file: TOML and YAML by suffix, else JSON with comments and trailing commas.

    Raises:
        SettingError: The file cannot be read, is not text, or is malformed.
    """
    return parse_document(read_text(path), path)


def read_text(path: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16, which Windows programs write.

    Raises:
        SettingError: The file cannot be read, is too large, or is not text.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise SettingError(
                f"{path} is larger than {_MAX_BYTES // 2**20} MiB.",
                hint="Name the configuration file itself.",
            )
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise SettingError(
            f"{path} cannot be read: {reason}.",
            hint="Correct the path, or make the file readable for this user.",
        ) from error
    try:
        return raw.decode(text_encoding(raw))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise SettingError(
            f"{path}, line {line}, column {column}: this is not UTF-8 text.",
            hint="Save the file as UTF-8.",
        ) from error


def text_encoding(raw: bytes) -> str:
    """Detect the encoding from the first bytes of a text; UTF-8 by default."""
    if raw[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "utf-16"
    if raw[1:2] == b"\0" != raw[:1]:
        return "utf-16-le"
    if raw[:1] == b"\0" != raw[1:2]:
        return "utf-16-be"
    return "utf-8-sig" if raw[:3] == b"\xef\xbb\xbf" else "utf-8"


def parse_document(text: str, path: Path, *, is_toml: bool | None = None) -> ConfigDocument:
    """Parse the text of a file; an empty one has no keys. `is_toml=None` decides by the suffix.

    Raises:
        SettingError: The text is malformed, or its outermost value is not an object.
    """
    if is_toml is None:
        is_toml = path.suffix.lower() == ".toml"
    try:
        if is_toml:
            root: object = tomllib.loads(text)
        elif _is_yaml(path):
            root = _yaml().parse(text)
        else:
            root = jsonc.parse(text) if text.strip() else {}
    except RecursionError as error:
        raise SettingError(
            f"{path} is nested too deeply to be read.", hint="Correct the file."
        ) from error
    except ValueError as error:
        raise _malformed(path, text, error, is_toml=is_toml) from error
    if not isinstance(root, dict):
        kind = "YAML mapping" if _is_yaml(path) else "JSON object"
        raise SettingError(f"{path} is no {kind}.", allowed='Expected: { "mcpServers": { … } }.')
    return ConfigDocument(path=path, text=text, root=cast("Json", root), is_toml=is_toml)


def _is_yaml(path: Path) -> bool:
    return path.suffix.lower() in {".yaml", ".yml"}


def _yaml() -> Any:
    """Import the YAML parser, which TOML and JSON files do not need."""
    return import_module("toolgate.settings.notations.yaml")


def _malformed(path: Path, text: str, error: ValueError, *, is_toml: bool) -> SettingError:
    if isinstance(error, json.JSONDecodeError):
        reason, line, column = error.msg, error.lineno, error.colno
    else:
        match = re.search(r"\(at (?:line (\d+), column (\d+)|(end of document))\)$", str(error))
        reason = str(error)[: match.start()].strip() if match else str(error)
        if match and match[1]:
            line, column = int(match[1]), int(match[2])
        elif match:
            line = text.rstrip("\n").count("\n") + 1
            column = len(text.rstrip("\n").rpartition("\n")[2]) + 1
        else:
            line = column = 0
    where = f"{path}, line {line}, column {column}" if line else str(path)
    kind = "TOML" if is_toml else "YAML" if _is_yaml(path) else "JSON"
    return SettingError(
        f"{where}: this is not valid {kind}: {_sentence(reason)}.",
        hint=f"Correct the {kind} there.",
    )


def _sentence(reason: str) -> str:
    """Return a parser's message in a form that fits into a sentence."""
    reason = reason.strip().rstrip(".")
    return reason[:1].lower() + reason[1:]


def _toml_line(text: str, path: KeyPath) -> int:
    """Return the line of the longest part of `path` that a header or a key names; 0 if none."""
    target = tuple(str(part) for part in path)
    best, best_length = 0, 0
    for number, key in _toml_keys(text):
        length = _common(key, target)
        if length > best_length and length == min(len(key), len(target)):
            best, best_length = number, length
    return best


# Each server has a location, and reading a value may make and drop an error with one.
@lru_cache(maxsize=4)
def _toml_keys(text: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the headers and keys of a TOML document: line and full path of each."""
    keys: list[tuple[int, tuple[str, ...]]] = []
    table: tuple[str, ...] = ()
    seen: Counter[tuple[str, ...]] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("["):
            key = key_of(bare.partition("]")[0].lstrip("[")) if "=" not in bare else ()
            if not key:
                continue
            if bare.startswith("[["):
                seen[key] += 1
                key = (*key, str(seen[key] - 1))
            table = key
            keys.append((number, key))
        else:
            name, equals, _ = bare.partition("=")
            key = key_of(name) if equals and not bare.startswith("#") else ()
            if key:
                keys.append((number, (*table, *key)))
    return tuple(keys)


def key_of(text: str) -> tuple[str, ...]:
    """Return the parts of a TOML key; empty if it is invalid."""
    try:
        table: Json = tomllib.loads(f"{text}=0")
    except (ValueError, RecursionError):
        return ()
    parts: list[str] = []
    while table:
        name, value = next(iter(table.items()))
        parts.append(name)
        table = json_object(value)
    return tuple(parts)


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    length = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        length += 1
    return length
