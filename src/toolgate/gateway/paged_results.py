"""Stores large results and returns them page by page."""

import logging
from collections.abc import Callable

from toolgate.base.ids import new_id, utc_now
from toolgate.base.signing import Signer
from toolgate.errors import (
    HandleError,
    StoreError,
)
from toolgate.gateway.execution import (
    page_result,
    read_page,
)
from toolgate.gateway.listing import Change, ChangeNotifier, ListingPolicy
from toolgate.settings import Settings
from toolgate.store import Store, StoredResult
from toolgate.types import (
    Caller,
    Json,
)

__all__ = ["PagedResults"]

log = logging.getLogger(__name__)

_HANDLE_PURPOSE = "handle"
"""What the signature of a handle says that it is for."""


class PagedResults:
    """Cuts large results into pages and gives the pages back."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        store: Store,
        signer: Signer,
        listing: ListingPolicy,
        changes: ChangeNotifier,
    ) -> None:
        self._settings = settings
        self._store = store
        self._signer = signer
        self._listing = listing
        self._changes = changes

    async def first_page(
        self, caller: Caller, result: Json, *, page_tokens: int | None = None
    ) -> Json:
        """A result, cut to its first page where it is too large; None: as the settings say."""
        settings = self._settings().results
        if not settings.paging:
            return result

        async def save(body: bytes) -> str:
            result_id = new_id()
            await self._store.results.save(
                StoredResult(
                    handle=result_id,
                    project_id=caller.project_id,
                    caller_id=caller.caller_id,
                    body=body,
                    expires_at=utc_now(plus_s=settings.ttl_s),
                )
            )
            return self._signer.sign(
                _HANDLE_PURPOSE, {"i": result_id, "c": caller.caller_id, "p": caller.project_id}
            )

        try:
            tokens = page_tokens or settings.page_tokens
            paged = await page_result(result, page_tokens=tokens, save=save)
        except StoreError as error:
            log.warning("large result not stored", extra={"error": error.full_text})
            return result  # whole and long is better than cut
        is_first = paged is not result and self._listing.note_paged()
        is_listed = "result_read" in self._settings().meta_tools
        if is_first and is_listed and not self._listing.lists_all(caller):
            self._changes.notify(Change(kind="tools"))
        return paged

    async def read(self, caller: Caller, handle: str, offset: int) -> Json:
        """The page of a stored result that starts at `offset` characters.

        Raises:
            HandleError: The handle is altered, expired, or another caller's.
        """
        payload = self._signer.check(_HANDLE_PURPOSE, handle)
        stored = None
        if payload.get("c") == caller.caller_id and payload.get("p") == caller.project_id:
            stored = await self._store.results.get(str(payload.get("i")))
        if stored is None or stored.expires_at < utc_now():
            raise HandleError(
                f"The result {handle[:16]!r}… is not there any more.",
                allowed=f"Results are kept for {self._settings().results.ttl_s:g} seconds.",
                hint="Run the tool again.",
            )
        tokens = self._settings().results.page_tokens
        return read_page(stored.body, offset, page_tokens=tokens, handle=handle)
