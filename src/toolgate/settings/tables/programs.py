"""Table `[programs]`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from toolgate.settings.tables.fields import between

__all__ = ["ProgramSettings"]


@dataclass(frozen=True, kw_only=True)
class ProgramSettings:
    """Table `[programs]`: programs over tools. See [code mode](code-mode.md)."""

    offer: Literal["auto", "on", "off"] = "auto"
    """Whether `tool_program` is listed: `auto` while the extra `programs` is installed, the
    meta-tools are listed and there are 15 tools or more; `on` always, `off` never."""

    sandbox: str = "monty"
    """What runs the programs: `monty`, or the name of another sandbox that is installed."""

    options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]]
    )
    """Tables `[programs.options.NAME]`: options of a sandbox."""

    timeout_s: float = between(120.0, 1, 3600)
    """Seconds that a program may take with all its calls, 1 to 3,600; a program may ask for less.
    The time that it waits for a person does not count."""

    run_s: float = between(5.0, 0.1, 60)
    """Seconds that a program may compute itself, 0.1 to 60."""

    memory_mb: int = between(64, 8, 2048)
    """Megabytes that the values of a program may take, 8 to 2,048."""

    max_calls: int = between(100, 1, 10_000)
    """Calls that a program may make, 1 to 10,000."""

    keep_s: float = between(86_400.0, 60, 2_592_000)
    """Seconds that a program waits for a person before it is dropped, 60 to 2,592,000."""
