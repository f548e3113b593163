"""The result of a check of `toolgate doctor`."""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from toolgate.errors import ToolgateError
from toolgate.types import Json

State: TypeAlias = Literal["ok", "warning", "problem"]
"""`warning`: works, but needs attention. `problem`: does not work."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Result of one check."""

    name: str
    """Stable name: `configuration`, `server NAME`, `port` and so on."""

    state: State
    """Outcome of the check."""

    found: str
    """One sentence about the result."""

    hint: str = ""
    """What to do; empty if nothing."""

    details: Json = field(default_factory=dict[str, Any])
    """Machine-readable details."""


def failed_check(name: str, error: ToolgateError) -> Check:
    hint = " ".join(part for part in (error.allowed, error.hint) if part)
    return Check(
        name=name,
        state="problem",
        found=" ".join(filter(None, (error.failed, error.detail))),
        hint=hint,
        details={"code": error.code},
    )
