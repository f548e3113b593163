"""The example prompts in a pack's folder, and the limits that it sets.

One prompt a line in `intents/NAME.txt`, in another language in `intents/NAME.de.txt`; blank lines
and lines that begin with `#` say nothing. Where there is a file `embeddings.list`, only the files
that it names are read. `unsupported.txt` beside `intents/` has messages that people send and the
pack does not answer. `false_alarms` and `threshold` stand in `pack.toml`, or for one intent in
`intents/NAME.toml`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from toolgate.errors import PackError
from toolgate.intent._semantic_model import Limits
from toolgate.intent.base import NONE

__all__ = ["Prompts", "read_prompts"]

_MOST_BYTES: Final = 5_000_000
_LANGUAGE: Final = re.compile(r"(.+)\.([a-z]{2,3}(?:-[A-Za-z0-9]{2,8})?)")


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """What a pack's folder says of its semantic stage."""

    prompts: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Per intent and language; the language is empty where the file's name has none."""

    unsupported: tuple[str, ...] = ()
    """Messages that are known and not answered."""

    limits: Limits = field(default_factory=Limits)
    """For all intents of the pack."""

    own_limits: Mapping[str, Limits] = field(default_factory=dict[str, Limits])
    """For single intents."""


def read_prompts(folder: Path) -> Prompts:
    """The prompts of a pack.

    Raises:
        PackError: There are none, or a file cannot be used; the message names it and the reason.
    """
    if not folder.is_dir():
        raise PackError(
            f"{folder} is no folder.", hint="Give the folder that holds pack.toml or intents/."
        )
    common = _limits(folder / "pack.toml", Limits())
    home = next(
        (folder / name for name in ("intents", "embeddings") if (folder / name).is_dir()), folder
    )
    prompts: dict[str, dict[str, tuple[str, ...]]] = {}
    own: dict[str, Limits] = {}
    for path in _files(home):
        name, language = path.stem, ""
        if match := _LANGUAGE.fullmatch(name):
            name, language = match[1], match[2]
        if name.casefold() == NONE:
            raise PackError(
                f"{path}: an intent cannot be called {name!r}.", hint="Give the file another name."
            )
        if lines := _lines(path):
            prompts.setdefault(name, {})[language] = lines
            limits = _limits(home / f"{name}.toml", common)
            if limits != common:
                own[name] = limits
    if not prompts:
        raise PackError(
            f"{home} has no file with example prompts.",
            allowed="Each intent has a file NAME.txt with one prompt a line.",
            hint="Add one, or correct embeddings.list.",
        )
    beside = folder / "unsupported.txt"
    return Prompts(
        prompts=prompts,
        unsupported=_lines(beside) if beside.is_file() else (),
        limits=common,
        own_limits=own,
    )


def _files(home: Path) -> list[Path]:
    listed = next(
        (p / "embeddings.list" for p in (home, home.parent) if (p / "embeddings.list").is_file()),
        None,
    )
    if listed is None:
        return sorted(path for path in home.glob("*.txt") if path.name != "unsupported.txt")
    found: list[Path] = []
    for line in _lines(listed):
        if not line.endswith(".txt"):
            continue
        path = home / line
        if Path(line).name != line or not path.is_file():
            raise PackError(
                f"{listed}: there is no file {line!r} in {home}.",
                hint="Correct the line, or add the file.",
            )
        found.append(path)
    return found


def _lines(path: Path) -> tuple[str, ...]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise PackError(
                f"{path}: the file is larger than {_MOST_BYTES} bytes.",
                hint="Some hundred prompts an intent are enough.",
            )
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PackError(
            f"{path}: the file is not UTF-8, from byte {error.start} on.",
            hint="Save it as UTF-8 text.",
        ) from error
    except OSError as error:
        raise PackError(
            f"{path}: the file cannot be read: {error.strerror}.", hint="Check its permissions."
        ) from error
    if "\0" in text:
        raise PackError(f"{path}: the file is not text.", hint="Save it as UTF-8 text.")
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def _limits(path: Path, common: Limits) -> Limits:
    if not path.is_file():
        return common
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PackError(f"{path}: {error}.", hint="Correct the file.") from error
    alarms = _share(path, table, "false_alarms")
    threshold = _share(path, table, "threshold")
    return Limits(
        false_alarms=common.false_alarms if alarms is None else alarms,
        # Whoever sets the share for an intent does not want the pack's threshold for it.
        threshold=threshold if threshold is not None or alarms is not None else common.threshold,
    )


def _share(path: Path, table: Mapping[str, Any], key: str) -> float | None:
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PackError(
            f"{path}: {key} is {value!r}.",
            allowed="Allowed: 0 to 1.",
            hint="Correct or remove it.",
        )
    return float(value)
