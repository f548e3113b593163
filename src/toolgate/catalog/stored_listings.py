"""Stores listings, so that the catalog is complete right after the next start."""

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from contextvars import Context
from dataclasses import fields
from typing import cast

from toolgate.base import json_text
from toolgate.errors import StoreError
from toolgate.security.guards import ServerSecrets
from toolgate.store import Store, StoredSnapshot
from toolgate.types import Json, ServerSpec, json_array, json_object
from toolgate.upstream import Listing

log = logging.getLogger(__name__)


class StoredListings:
    """The stored listings of a project. Failures of the store are logged and do no harm."""

    def __init__(self, store: Store, project_id: str) -> None:
        self._store = store
        self._project_id = project_id
        self._saving: set[asyncio.Task[None]] = set()

    async def load(self) -> list[tuple[str, Listing, str, str]]:
        """Return server, listing, time (UTC, ISO 8601) and digest of the server's configuration."""
        try:
            rows = await self._store.catalog.snapshots(self._project_id)
        except StoreError as error:
            log.warning("stored listings cannot be read", extra={"error": error.full_text})
            return []
        listings: list[tuple[str, Listing, str, str]] = []
        for row in rows:
            try:
                stored = json_object(json_text.loads(row.listing))
                digest = str(stored.get("configuration") or "")
                listings.append((row.server, _parse(stored), row.listed_at, digest))
            except (ValueError, KeyError, TypeError) as error:
                log.warning(
                    "stored listing cannot be used",
                    extra={"server": row.server, "error": repr(error)},
                )
        return listings

    def save_soon(self, name: str, listing: Listing, listed_at: str, configuration: str) -> None:
        """Store the listing of a server in the background."""
        # An empty context: the deadline of the request that happens to start it does not apply.
        saving = self._save(name, listing, listed_at, configuration)
        task = asyncio.create_task(saving, context=Context())
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def delete(self, name: str) -> None:
        """Delete the listing of a server.

        Raises:
            StoreError: The store failed.
        """
        await self._store.catalog.delete_snapshot(self._project_id, name)

    async def aclose(self) -> None:
        """Wait for listings that are being stored."""
        await asyncio.gather(*self._saving, return_exceptions=True)

    async def _save(self, name: str, listing: Listing, listed_at: str, configuration: str) -> None:
        # Not `asdict`, which copies every definition, in the event loop.
        members = {item.name: getattr(listing, item.name) for item in fields(listing)}
        body = await asyncio.to_thread(json_text.dumps, {**members, "configuration": configuration})
        row = StoredSnapshot(
            project_id=self._project_id,
            server=name,
            listing=body,
            digest=hashlib.sha256(body).hexdigest(),
            listed_at=listed_at,
        )
        try:
            await self._store.catalog.save_snapshot(row)
        except StoreError as error:
            log.warning("listing not stored", extra={"server": name, "error": str(error)})


def configuration_digest(spec: ServerSpec) -> str:
    """Return a digest of what a listing depends on: how its server is started, without secrets.

    A new token does not change the digest; another command, address or variable does.
    """
    started_by = repr((spec.kind, _sorted(spec.options), spec.era, spec.subject))
    text = ServerSecrets(spec.options).mask(started_by)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return sorted((name, _sorted(item)) for name, item in pairs)
    return value


def _parse(stored: Json) -> Listing:
    return Listing(
        tools=tuple(json_array(stored.get("tools"))),
        prompts=tuple(json_array(stored.get("prompts"))),
        resources=tuple(json_array(stored.get("resources"))),
        templates=tuple(json_array(stored.get("templates"))),
        capabilities=json_object(stored.get("capabilities")),
        instructions=str(stored.get("instructions") or ""),
    )
