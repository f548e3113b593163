"""Values of the global options, for the one command that runs in this process."""

from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

DEV_HELP = (
    "For pack authors: use intents marked dev = true, and reload packs when their files change."
)
"""Help text of `--dev`."""


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """The global options."""

    config: Path | None = None
    """`--config FILE`: read this file instead of searching for one."""

    imports: tuple[str, ...] = ()
    """`--import FILE`: further files with servers, in the order given."""

    auth: str = ""
    """`--auth`: overrides the setting of this name; empty to use the setting."""

    log_file: str = ""
    """`--log-file` of `serve`: overrides the setting `log.file`; empty to use the setting."""

    dev: bool = False
    """`--dev` of `serve` and `stdio`: like the setting `packs.dev`."""

    verbose: int = 0
    """How often `-v` was given: more log, and tracebacks."""


_OPTIONS: ContextVar[SharedOptions] = ContextVar("shared", default=SharedOptions())  # noqa: B039 - frozen


def set_shared_options(options: SharedOptions) -> None:
    """Set the global options of this process."""
    _OPTIONS.set(options)


def shared_options() -> SharedOptions:
    """Return the global options of this process."""
    return _OPTIONS.get()
