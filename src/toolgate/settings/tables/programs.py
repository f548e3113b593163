"""Table `[programs]`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate.settings.tables.fields import between


@dataclass(frozen=True, kw_only=True)
class ProgramSettings:
    """Table `[programs]`: programs that models write to call several tools.

    See [code mode](code-mode.md).
    """

    offer: Literal["auto", "on", "off"] = "auto"
    """Whether `tool_program` is listed. `auto`: if the extra `programs` is installed, the
    meta-tools are listed and there are at least 15 tools."""

    sandbox: str = "monty"
    """Sandbox that runs the programs: `monty` or an installed plugin."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]]
    )
    """Tables `[programs.options.NAME]`: options of a sandbox."""

    timeout_s: float = between(120.0, 1, 3600)
    """Total time limit of a program including its calls, in seconds, 1 to 3,600; a program may ask
    for less. Time spent waiting for an approval does not count."""

    run_s: float = between(5.0, 0.1, 60)
    """Compute time limit of a program, excluding its calls, in seconds, 0.1 to 60."""

    memory_mb: int = between(64, 8, 2048)
    """Memory limit of a program in megabytes, 8 to 2,048."""

    max_calls: int = between(100, 1, 10_000)
    """Maximum number of calls in a program, 1 to 10,000."""

    keep_s: float = between(86_400.0, 60, 2_592_000)
    """How long a program is kept while it waits for an approval or an answer, in seconds, 60 to
    2,592,000."""
