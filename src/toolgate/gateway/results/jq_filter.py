"""Applies models' jq filters, within limits of time, memory and size."""

import json
import logging
import sys
from typing import Any, Final

from toolgate.base import json_text
from toolgate.base.processes.worker import WorkerError, WorkerPool, WorkersBusyError
from toolgate.errors import ArgumentError

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 5.0
"""Seconds a filter may take (chosen: a sensible one takes milliseconds)."""

_MAX_CHARS: Final = 4_000
"""Characters of a filter (chosen)."""

_MEMORY_MB: Final = 512
"""Megabytes of a worker (chosen: jq takes about ten times the size of the JSON)."""

_WORKERS: Final = 2
"""Filters that run at the same time (chosen)."""


class FilterError(ValueError):
    """A filter could not be applied to a value; the message says why."""


class JqFilter:
    """Runs filters in worker processes, which are started on demand."""

    def __init__(self) -> None:
        self._pool = WorkerPool(
            "toolgate.gateway.results.jq_worker:answer", memory_mb=_MEMORY_MB, size=_WORKERS
        )

    async def check(self, text: str) -> None:
        """Check a filter before the tool runs.

        Raises:
            ArgumentError: The filter is not valid jq.
        """
        if len(text) > _MAX_CHARS:
            raise ArgumentError(
                f"'select' has {len(text):,} characters.", allowed=f"Allowed: {_MAX_CHARS:,}."
            )
        try:
            reply = await self._ask(text, b"", check=True)
        except FilterError as error:
            raise ArgumentError(f"'select' could not be checked: {error}.") from error
        if "syntax" in reply:
            raise ArgumentError(
                f"'select' is not a valid jq filter: {reply['syntax']}.",
                allowed="Allowed: a filter such as '.items[] | {id, name}'.",
                hint="Correct it; the tool did not run.",
            )

    async def apply(self, text: str, value: object) -> Any:
        """Apply a filter and return its one output, or several outputs as a list.

        Raises:
            FilterError: It does not match the value, or exceeded a limit.
        """
        reply = await self._ask(text, json_text.dumps(value), check=False)
        if "outputs" not in reply:
            raise FilterError(reply.get("failed") or reply["syntax"])
        outputs = [json.loads(output, parse_float=_finite) for output in reply["outputs"]]
        return outputs[0] if len(outputs) == 1 else outputs

    async def aclose(self) -> None:
        """Stop the processes."""
        await self._pool.aclose()

    async def _ask(self, text: str, data: bytes, *, check: bool) -> Any:
        request = {"filter": text, "check": check}
        try:
            return await self._pool.call(request, data, timeout_s=_TIMEOUT_S)
        except WorkersBusyError as error:
            raise FilterError("too many other filters are running, try again later") from error
        except TimeoutError as error:
            raise FilterError(f"it takes longer than {_TIMEOUT_S:g} seconds") from error
        except WorkerError as error:
            log.warning("jq gave no answer", extra={"error": str(error)})
            raise FilterError("it needs too much memory, or jq ended") from error


def _finite(text: str) -> float:
    """A number of a filter; beyond the range of a double the largest one, as jq computes."""
    number = float(text)
    return max(-sys.float_info.max, min(number, sys.float_info.max))
