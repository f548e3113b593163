"""Stores large results and returns them page by page."""

import logging
from functools import partial

from toolgate.base.ids import new_id, utc_now
from toolgate.errors import (
    HandleError,
    StoreError,
)
from toolgate.gateway.execution import (
    page_result,
    read_page,
)
from toolgate.gateway.listing import Change, ChangeNotifier, ListingPolicy
from toolgate.gateway.parts import GatewayContext, ResultParts
from toolgate.gateway.results.json_values import read_result, suggest_filter
from toolgate.store import StoredResult
from toolgate.types import (
    Caller,
    Json,
)

log = logging.getLogger(__name__)

_HANDLE_PURPOSE = "handle"
"""The purpose that a handle's signature states."""


class PagedResults:
    """Cuts large results into pages and returns the pages."""

    def __init__(
        self,
        context: GatewayContext,
        *,
        parts: ResultParts,
        listing: ListingPolicy,
        changes: ChangeNotifier,
    ) -> None:
        self._settings = context.settings
        self._store = parts.store
        self._signer = parts.signer
        self._listing = listing
        self._changes = changes

    @property
    def page_tokens(self) -> int:
        """Estimated tokens of a page."""
        return self._settings.current.results.page_tokens

    async def first_page(
        self,
        caller: Caller,
        result: Json,
        *,
        page_tokens: int | None = None,
        schema: Json | None = None,
    ) -> Json:
        """Return a result, cut to its first page if it is too large.

        Args:
            caller: The caller that the result is for.
            result: The result.
            page_tokens: Estimated tokens of a page; None for the value of the settings.
            schema: The output schema of the tool, used to suggest a part of the result.
        """
        settings = self._settings.current.results
        if not settings.paging:
            return result
        try:
            paged = await page_result(
                result,
                page_tokens=page_tokens or settings.page_tokens,
                save=partial(self._save, caller),
                suggest=lambda: suggest_filter(schema or {}, read_result(result)),
            )
        except StoreError as error:
            log.warning("large result not stored", extra={"error": error.full_text})
            return result  # whole and long is better than cut
        if paged is not result:
            self._list_reading(caller)
        return paged

    async def keep(self, caller: Caller, body: bytes) -> str | None:
        """Store a text for `result_read` and return its handle; None if it cannot be stored."""
        if not self._settings.current.results.paging:
            return None
        try:
            handle = await self._save(caller, body)
        except StoreError as error:
            log.warning("result not stored", extra={"error": error.full_text})
            return None
        self._list_reading(caller)
        return handle

    async def read(self, caller: Caller, handle: str, offset: int) -> Json:
        """Return the page of a stored result that starts at `offset` characters.

        Raises:
            HandleError: The handle is altered, expired, or another caller's.
        """
        stored = await self._stored(caller, handle)
        return read_page(stored.body, offset, page_tokens=self.page_tokens, handle=handle)

    async def stored_text(self, caller: Caller, handle: str) -> str:
        """Return the whole text of a stored result.

        Raises:
            HandleError: The handle is altered, expired, or another caller's.
        """
        return (await self._stored(caller, handle)).body.decode("utf-8", "surrogatepass")

    async def _save(self, caller: Caller, body: bytes) -> str:
        result_id = new_id()
        await self._store.results.save(
            StoredResult(
                handle=result_id,
                project_id=caller.project_id,
                caller_id=caller.caller_id,
                body=body,
                expires_at=utc_now(plus_s=self._settings.current.results.ttl_s),
            )
        )
        return self._signer.sign(
            _HANDLE_PURPOSE, {"i": result_id, "c": caller.caller_id, "p": caller.project_id}
        )

    def _list_reading(self, caller: Caller) -> None:
        """List `result_read` once the first result is stored."""
        is_first = self._listing.note_paged()
        is_listed = "result_read" in self._settings.current.meta_tools
        if is_first and is_listed and not self._listing.lists_all(caller):
            self._changes.notify(Change(kind="tools"))

    async def _stored(self, caller: Caller, handle: str) -> StoredResult:
        payload = self._signer.check(_HANDLE_PURPOSE, handle)
        stored = None
        if payload.get("c") == caller.caller_id and payload.get("p") == caller.project_id:
            stored = await self._store.results.get(str(payload.get("i")))
        if stored is None or stored.expires_at < utc_now():
            raise HandleError(
                f"The result {handle[:16]!r}… no longer exists.",
                allowed=f"Results are stored for {self._settings.current.results.ttl_s:g} seconds.",
                hint="Run the tool again.",
            )
        return stored
