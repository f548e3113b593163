"""Converts files to text in child processes, with limits on time and memory."""

import logging
from collections.abc import Callable

from toolgate.base.processes.worker import WorkerError, WorkerPool, WorkersBusyError
from toolgate.documents.formats.conversion import ConvertedDocument
from toolgate.documents.formats.worker import WORKER_FUNCTION, received
from toolgate.errors import DocumentError
from toolgate.settings import DocumentSettings

log = logging.getLogger(__name__)

_WORKERS = 2
"""Concurrent conversions."""

_MEMORY_MB = 1024
"""Memory of a worker in MB, besides four times the largest file and the largest text.

A Word file with a million elements, which is the limit, takes 830 MB.
"""


class DocumentConverter:
    """Converts files to text; the libraries run in processes that can be killed."""

    def __init__(self, settings: Callable[[], DocumentSettings]) -> None:
        """Create the converter; it starts no process yet.

        Args:
            settings: Returns the current limits.
        """
        self._settings = settings
        self._workers: WorkerPool | None = None

    async def convert(self, name: str, data: bytes, *, media_type: str = "") -> ConvertedDocument:
        """Return the text of a file.

        Args:
            name: Its name; the extension determines its format.
            data: Its content.
            media_type: Its format, if the name has no known extension.

        Raises:
            DocumentError: It is empty, broken, encrypted, too large, takes too much time or
                memory, or has an unknown format.
            MissingExtraError: A library for it is not installed.
        """
        settings = self._settings()
        workers = await self._workers_for(settings)
        options = {"media_type": media_type, "max_bytes": settings.max_text_mb * 2**20}
        try:
            reply = await workers.call(
                {"name": name, "options": options}, data, timeout_s=settings.convert_timeout_s
            )
        except WorkersBusyError as error:
            raise DocumentError(
                f"{name} was not converted: other files took all of the last "
                f"{settings.convert_timeout_s:g} s.",
                hint="Import it again later.",
            ) from error
        except TimeoutError as error:
            raise DocumentError(
                f"{name} takes longer than {settings.convert_timeout_s:g} s to convert.",
                allowed="Allowed: the setting documents.convert_timeout_s.",
                hint="Split it, or raise the limit.",
            ) from error
        except WorkerError as error:
            log.warning("worker ended", extra={"document": name}, exc_info=error)
            failed = (
                f"{name} needs more than {workers.memory_mb} MB of memory to convert."
                if error.is_out_of_memory
                else f"{name} cannot be converted: the process that did it ended."
            )
            raise DocumentError(failed, hint="Split it, or save it again.") from error
        return received(reply)

    async def aclose(self) -> None:
        """Stop the processes; may be called twice, and the converter can be used again."""
        if self._workers is not None:
            await self._workers.aclose()

    async def _workers_for(self, settings: DocumentSettings) -> WorkerPool:
        memory_mb = _MEMORY_MB + 4 * (settings.max_file_mb + settings.max_text_mb)
        before = self._workers
        if before is not None and before.memory_mb == memory_mb:
            return before
        workers = self._workers = WorkerPool(WORKER_FUNCTION, memory_mb=memory_mb, size=_WORKERS)
        if before is not None:
            await before.aclose()
        return workers
