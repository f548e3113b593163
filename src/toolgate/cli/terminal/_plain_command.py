"""Commands whose options are data, with a minimal parser.

`serve` and `stdio` use it so that long-running processes do not load the command-line libraries,
and `search` and `call` so that they start in half the time; `toolgate.cli.root` creates help and
completion from the same data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from toolgate.cli.terminal._context import SharedOptions


class UsageError(Exception):
    """The command line is invalid; one sentence for the user."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a command."""

    flags: tuple[str, ...]
    """Names, the long form first: `--port`."""

    help: str
    """Help text, one sentence."""

    kind: type = str
    """`str`, `int`, `Path`, or `bool` for an option without value."""

    metavar: str = ""
    """Placeholder for the value in the help."""

    minimum: int = 0
    """Smallest allowed number, if `maximum` is set."""

    maximum: int | None = None
    """Largest allowed number; None allows any."""

    choices: tuple[str, ...] = ()
    """Allowed values; empty allows any."""

    repeated: bool = False
    """Whether it can be given more than once."""

    default: object = None
    """Default that the help shows; None if the help text states it."""

    parameter: str = ""
    """Name of the parameter for it; empty: derived from the option."""

    @property
    def name(self) -> str:
        """Name of the parameter for it."""
        return self.parameter or self.flags[0].lstrip("-").replace("-", "_")


@dataclass(frozen=True, kw_only=True)
class Positional:
    """A positional argument of a command."""

    name: str
    """Name of the parameter for it."""

    metavar: str
    """Placeholder for it in the help."""

    help: str
    """Help text, one sentence."""

    repeated: bool = False
    """Whether it can be given more than once; at least one is required."""


SHARED_OPTIONS = (
    Option(
        flags=("--config",),
        metavar="FILE",
        kind=Path,
        help="Use this configuration file instead of searching for toolgate.toml.",
    ),
    Option(
        flags=("--import",),
        metavar="FILE",
        repeated=True,
        help="Also load servers from this file (toolgate.toml or mcpServers JSON). Can be "
        "repeated.",
    ),
    Option(
        flags=("--verbose", "-v"),
        kind=bool,
        repeated=True,
        help="Show more log output and full tracebacks.",
    ),
)
"""Global options, accepted before or after the name of the command."""


@dataclass(frozen=True, kw_only=True)
class PlainCommand:
    """A command with at most two positional arguments, the second of which is optional."""

    name: str
    """Name of the command."""

    help: str
    """Help text; its first line is one sentence."""

    argument: Positional | None = None
    """The positional argument; None if it takes none."""

    optional_argument: Positional | None = None
    """A second positional argument, which may be left out; None if it takes none."""

    options: tuple[Option, ...] = field(default=())
    """Options of the command."""

    call: Callable[..., int]
    """Called with the given options as keywords; returns the exit status."""

    def run(self, argv: Sequence[str]) -> int:
        """Parse the options and run the command.

        Raises:
            UsageError: An option is unknown, or its value is missing or invalid.
        """
        return self.call(**self.parse(argv))

    def parse(self, argv: Sequence[str]) -> dict[str, Any]:
        """Parse a command line; return the values for `call`.

        Raises:
            UsageError: An option is unknown, or its value is missing or invalid.
        """
        by_flag = {flag: option for option in self.options for flag in option.flags}
        values: dict[str, Any] = {}
        words: list[str] = []
        waiting = list(argv)
        while waiting:
            word = waiting.pop(0)
            if self.argument is not None and (word == "--" or not word.startswith("-")):
                words += waiting if word == "--" else [word]
                waiting = [] if word == "--" else waiting
                continue
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
        return values | self._named(words)

    def _named(self, words: list[str]) -> dict[str, Any]:
        """Return the positional values, under the name of their parameter."""
        argument = self.argument
        if argument is None:
            return {}
        if argument.repeated and words:
            return {argument.name: words}
        second = self.optional_argument
        if not words or len(words) > 1 + (second is not None):
            also = f" and at most one {second.metavar}" if second is not None else ""
            raise UsageError(
                f"'toolgate {self.name}' takes one {argument.metavar}{also}, got {len(words)}."
                f"{self._see()}"
            )
        named = {argument.name: words[0]}
        return named | {second.name: words[1]} if second is not None and words[1:] else named

    def _convert(self, option: Option, flag: str, value: str) -> object:
        try:
            converted: object = option.kind(value)
        except ValueError:
            converted = None
        low, high = option.minimum, option.maximum
        if converted is None or (high is not None and not low <= option.kind(value) <= high):
            limits = "" if high is None else f" from {low:,} to {high:,}"
            number = "an integer" if option.kind is int else "a number"
            raise UsageError(
                f"Option {flag} got {value!r}. Allowed: {number}{limits}.{self._see()}"
            )
        if option.choices and value not in option.choices:
            allowed = ", ".join(option.choices)
            raise UsageError(f"Option {flag} got {value!r}. Allowed: {allowed}.{self._see()}")
        return converted

    def _unknown(self, flag: str, by_flag: Mapping[str, Option]) -> str:
        if not flag.startswith("-"):
            return f"'toolgate {self.name}' takes no argument {flag!r}.{self._see()}"
        near = get_close_matches(flag, by_flag, n=1)
        guess = f" Did you mean {near[0]}?" if near else ""
        return f"'toolgate {self.name}' has no option {flag}.{guess}{self._see()}"

    def _see(self) -> str:
        return f" See: toolgate {self.name} --help"


_ADDING = (["add"], ["servers", "add"])
"""Commands that are followed by the command line of another program."""


def split_globals(argv: Sequence[str]) -> tuple[SharedOptions, list[str]]:
    """Separate the global options, anywhere before `--`, from the rest.

    An added server can be a command line with its own options, so after `add` only the options
    that follow it directly are ours.

    Raises:
        UsageError: A global option lacks its value.
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
        elif option is None and rest in _ADDING:
            rest += [word, *waiting]
            break
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
