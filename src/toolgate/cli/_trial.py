"""Servers tried on their own: started, greeted, listed, timed, ended."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter

from toolgate.app import open_app
from toolgate.cli._door import WAIT_S, store_url, unknown_server
from toolgate.cli._local import quiet
from toolgate.settings import AuditSettings, Settings, StoreSettings, expand_home, server_spec
from toolgate.store import make_store
from toolgate.types import DEFAULT_PROJECT, Caller, Json, ServerSpec

__all__ = ["each_server", "known_servers", "try_servers"]


async def each_server(loaded: Settings) -> AsyncIterator[Json]:
    """A trial of every server that is switched on, one after the other, as each ends."""
    for spec in (await known_servers(loaded)).values():
        if spec.enabled:
            yield await _try(loaded, spec)


async def try_servers(loaded: Settings, names: Sequence[str]) -> list[Json]:
    """Trials of the servers that are named.

    Raises:
        UnknownServerError: One of them is not configured.
    """
    known = await known_servers(loaded)
    for name in names:
        if name not in known:
            raise unknown_server(name, known)
    return [await _try(loaded, known[name]) for name in names]


async def known_servers(loaded: Settings) -> dict[str, ServerSpec]:
    """Servers of the files and of the store by name."""
    known = {spec.name: spec for spec in loaded.servers}
    url = store_url(loaded)
    if _is_absent(url):
        return known
    store = make_store(url)
    await store.open()
    try:
        for stored in await store.servers(DEFAULT_PROJECT):
            spec = server_spec(stored.name, stored.config, server_id=stored.server_id)
            known.setdefault(stored.name, replace(spec, enabled=stored.enabled and spec.enabled))
    finally:
        await store.close()
    return known


def _is_absent(url: str) -> bool:
    """Whether the store is a file that was never made."""
    prefix = "sqlite:///"
    return url.startswith(prefix) and not Path(expand_home(url.removeprefix(prefix))).exists()


async def _try(loaded: Settings, spec: ServerSpec) -> Json:
    quiet(loaded)
    with tempfile.TemporaryDirectory(prefix="toolgate-") as folder:
        alone = replace(
            loaded,
            servers=(replace(spec, enabled=True, source="trial"),),
            store=StoreSettings(url=f"sqlite:///{Path(folder).as_posix()}/trial.db"),
            audit=AuditSettings(enabled=False),
            pinned=(),
            files=(),
        )
        began = perf_counter()
        async with open_app(alone, wait_s=WAIT_S) as app:
            ready_s = perf_counter() - began
            status = app.gateway.servers(Caller())[0]
    is_ok = status.state in {"ready", "degraded"}
    error = spec.problem or status.last_error or f"No answer within {WAIT_S:.0f} seconds."
    return {
        **asdict(status),
        "source": spec.source,
        "ok": is_ok,
        "ready_s": round(ready_s, 3),
        "error": None if is_ok else error,
    }
