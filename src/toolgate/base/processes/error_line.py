"""Find the line of a program's standard error that states why it ended."""

import re
from collections.abc import Sequence
from typing import Final

_NOISE: Final = re.compile(
    r"^\s*at\s|^Node\.js v|A complete log of this run|^Run '.*--help'|For more information"
    r"|^npm (?:notice|warn)|^\[The process .*\]$|^\s*[\^~{}\[\](),;]+\s*$|^\s*throw\b|^See '",
    re.IGNORECASE,
)
"""Lines that programs print around the actual error message."""

_STARTS_LIKE_ERROR: Final = re.compile(
    r"^(?:[\w.@/-]+: )?(?:\[?(?:fatal|error|panic|critical)\b|[\w.]*(?:Error|Exception)\b"
    r"|(?:cannot|can't|could not|unable to|failed to|permission denied|no such)\b)",
    re.IGNORECASE,
)

_MENTIONS_ERROR: Final = re.compile(
    r"\b(?:error|exception|cannot|can't|could not|unable|failed|failure|fatal|denied|refused"
    r"|not found|missing|required|invalid|unauthorized|no such|no module|not set|must)\b",
    re.IGNORECASE,
)


def telling_line(lines: Sequence[str]) -> str:
    """Return the line of standard error that states the error; empty if none does.

    Args:
        lines: The last lines, oldest first.
    """
    useful = [line for line in lines if line.strip() and not _NOISE.search(line)]
    starts = [at for at, line in enumerate(useful) if line.startswith("Traceback (most recent")]
    if starts:
        ends = [line for line in useful[starts[-1] + 1 :] if not line.startswith(" ")]
        if ends:
            return ends[0].strip()
    for pattern in (_STARTS_LIKE_ERROR, _MENTIONS_ERROR):
        matching = [line for line in useful if pattern.search(line.strip())]
        if matching:
            return matching[-1].strip()
    return ""


def failure_text(error: str, stderr: Sequence[str]) -> str:
    """Return why a server failed: its error, and the line of standard error that states more.

    Args:
        error: Why the connection failed.
        stderr: The last lines of standard error, oldest first.
    """
    line = telling_line(stderr)
    if line in error:
        return error
    return (
        f"{error} {line}".strip() if line.endswith((".", "!", "?")) else f"{error} {line}.".strip()
    )
