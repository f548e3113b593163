"""Options described as data, and a parser of a few lines for them.

`serve` and `stdio` are read with it, so that the process that serves never loads the libraries of
the command line; `_root` builds help and completion from the same description.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from toolgate.cli.terminal._context import SharedOptions

__all__ = ["SHARED_OPTIONS", "Option", "PlainCommand", "UsageError", "split_globals"]


class UsageError(Exception):
    """The command line does not fit the command; one sentence for its user."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a command."""

    flags: tuple[str, ...]
    """As it is written, the long form first: `--port`."""

    help: str
    """One sentence."""

    kind: type = str
    """`str`, `int`, `Path`, or `bool` for an option without value."""

    metavar: str = ""
    """What the help calls its value."""

    maximum: int | None = None
    """Largest allowed integer, with 0 as the smallest; None allows any."""

    repeated: bool = False
    """Whether it may be given more than once."""

    @property
    def name(self) -> str:
        """Name of the parameter that receives it."""
        return self.flags[0].lstrip("-").replace("-", "_")


SHARED_OPTIONS = (
    Option(
        flags=("--config",),
        metavar="FILE",
        kind=Path,
        help="Read this configuration file instead of looking for toolgate.toml.",
    ),
    Option(
        flags=("--import",),
        metavar="FILE",
        repeated=True,
        help="Also use the servers of this file (toolgate.toml or mcpServers JSON). Repeatable.",
    ),
    Option(
        flags=("--verbose", "-v"),
        kind=bool,
        repeated=True,
        help="Show more of the log, and tracebacks of errors.",
    ),
)
"""Options of every command, before or after its name."""


@dataclass(frozen=True, kw_only=True)
class PlainCommand:
    """A command without arguments whose options are data."""

    name: str
    """As it is typed."""

    help: str
    """First line: one sentence."""

    options: tuple[Option, ...] = field(default=())
    """Its own options."""

    call: Callable[..., int]
    """Receives the options that were given as keywords; gives the exit status."""

    def run(self, argv: Sequence[str]) -> int:
        """Read the options and run.

        Raises:
            UsageProblemError: An option is unknown, or its value is missing or does not fit.
        """
        return self.call(**self._parse(argv))

    def _parse(self, argv: Sequence[str]) -> dict[str, Any]:
        by_flag = {flag: option for option in self.options for flag in option.flags}
        values: dict[str, Any] = {}
        waiting = list(argv)
        while waiting:
            word = waiting.pop(0)
            flag, joined, value = word.partition("=")
            option = by_flag.get(flag)
            if option is None:
                raise UsageError(self._unknown(flag, by_flag))
            if option.kind is bool:
                if joined:
                    raise UsageError(f"Option {flag} takes no value.{self._see()}")
                values[option.name] = True
                continue
            if not joined:
                if not waiting:
                    raise UsageError(f"Option {flag} needs a value.{self._see()}")
                value = waiting.pop(0)
            _keep(values, option, self._convert(option, flag, value))
        return values

    def _convert(self, option: Option, flag: str, value: str) -> object:
        try:
            converted: object = option.kind(value)
        except ValueError:
            converted = None
        maximum = option.maximum
        if converted is None or (maximum is not None and not 0 <= int(value) <= maximum):
            limits = "" if maximum is None else f" from 0 to {maximum:,}"
            raise UsageError(
                f"Option {flag} got {value!r}. Allowed: a whole number{limits}.{self._see()}"
            )
        return converted

    def _unknown(self, flag: str, by_flag: Mapping[str, Option]) -> str:
        if not flag.startswith("-"):
            return f"'toolgate {self.name}' takes no argument {flag!r}.{self._see()}"
        near = get_close_matches(flag, by_flag, n=1)
        guess = f" Did you mean {near[0]}?" if near else ""
        return f"'toolgate {self.name}' has no option {flag}.{guess}{self._see()}"

    def _see(self) -> str:
        return f" See: toolgate {self.name} --help"


def split_globals(argv: Sequence[str]) -> tuple[SharedOptions, list[str]]:
    """The shared options, wherever they stand before `--`, and the rest in its order.

    Raises:
        UsageProblemError: A shared option lacks its value.
    """
    by_flag = {flag: option for option in SHARED_OPTIONS for flag in option.flags}
    values: dict[str, Any] = {"verbose": 0}
    rest: list[str] = []
    waiting = list(argv)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            rest += [word, *waiting]
            break
        flag, joined, value = word.partition("=")
        option = by_flag.get(flag)
        if word.startswith("-vv") and not word.strip("-v"):
            values["verbose"] += len(word) - 1
        elif option is None:
            rest.append(word)
        elif option.kind is bool:
            values[option.name] += 1
        else:
            if not joined:
                if not waiting or waiting[0] == "--":
                    raise UsageError(f"Option {flag} needs a file name after it.")
                value = waiting.pop(0)
            _keep(values, option, option.kind(value))
    shared = SharedOptions(
        config=values.get("config"),
        imports=tuple(values.get("import", ())),
        verbose=values["verbose"],
    )
    return shared, rest


def _keep(values: dict[str, Any], option: Option, value: object) -> None:
    if option.repeated:
        values.setdefault(option.name, []).append(value)
    else:
        values[option.name] = value
