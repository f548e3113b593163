"""What the options that every command shares were set to, for the one command of this process."""

from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DEV_HELP", "SharedOptions", "set_shared_options", "shared_options"]

DEV_HELP = "Use intents that are marked dev = true, and watch all packs."
"""What the help says of `--dev`."""


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """The options of every command."""

    config: Path | None = None
    """`--config FILE`: read this file instead of looking for one."""

    imports: tuple[str, ...] = ()
    """`--import FILE`: further files with servers, in the order given."""

    auth: str = ""
    """`--auth`: stands over the setting of this name; empty: the setting holds."""

    dev: bool = False
    """`--dev` of `serve` and `stdio`: as `packs.dev` of the configuration."""

    verbose: int = 0
    """How often `-v` was given: more log, and tracebacks."""


_OPTIONS: ContextVar[SharedOptions] = ContextVar("shared", default=SharedOptions())  # noqa: B039 - it is frozen


def set_shared_options(options: SharedOptions) -> None:
    """Make these the options of this process."""
    _OPTIONS.set(options)


def shared_options() -> SharedOptions:
    """The options of this process."""
    return _OPTIONS.get()
