"""Test servers without a gateway: start, handshake, list, measure the time, stop."""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import anyio

from toolgate.app.server_check import try_server
from toolgate.cli.client._load_settings import store_url, unknown_server
from toolgate.cli.client._local_gateway import silence_logs
from toolgate.security.credentials import (
    EVERYBODY,
    SECRETS,
    Keychain,
    SealedConfigs,
    Vault,
    current_values,
    key_of,
    source_of,
    stored_secrets,
    with_values,
)
from toolgate.settings import Settings, expand_home, server_spec
from toolgate.store import make_store
from toolgate.types import DEFAULT_PROJECT, Json, ServerSpec

STARTING_AT_ONCE: Final = max(4, 2 * (os.cpu_count() or 1))
"""Servers that start at the same time: starting is mostly CPU work, so more would be slower."""

START_S: Final = 5.0
"""Seconds after which a server counts as waiting and the next one may start. Chosen: most
servers have started by then, and one that never responds must not hold up the others."""


async def test_all_servers(loaded: Settings, *, leave_out: frozenset[str]) -> list[Json]:
    """Test the enabled servers concurrently; return the results in the order of the servers.

    Args:
        loaded: The settings.
        leave_out: Names of servers that are not started.
    """
    servers = (await configured_servers(loaded)).values()
    specs = [spec for spec in servers if spec.enabled and spec.name not in leave_out]
    results: dict[str, Json] = {}
    starting = anyio.Semaphore(STARTING_AT_ONCE)

    async def run(spec: ServerSpec) -> None:
        results[spec.name] = await _test_in_turn(loaded, spec, starting)

    async with anyio.create_task_group() as tasks:
        for spec in specs:
            tasks.start_soon(run, spec)
    return [results[spec.name] for spec in specs]


async def _test_in_turn(loaded: Settings, spec: ServerSpec, starting: anyio.Semaphore) -> Json:
    """Test a server as soon as it may start, and let the next one start a little later."""
    done = anyio.Event()
    results: list[Json] = []

    async def run() -> None:
        results.append(await _test(loaded, spec))
        done.set()

    await starting.acquire()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.move_on_after(START_S):
            await done.wait()
        starting.release()
    return results[0]


async def test_servers(loaded: Settings, names: Sequence[str]) -> list[Json]:
    """Test the named servers.

    Raises:
        UnknownServerError: One of them is not configured.
    """
    servers = await configured_servers(loaded)
    for name in names:
        if name not in servers:
            raise unknown_server(name, servers)
    return [await _test(loaded, servers[name]) for name in names]


async def configured_servers(loaded: Settings) -> dict[str, ServerSpec]:
    """Return the servers of the configuration files and of the store, by name."""
    servers = {spec.name: spec for spec in loaded.servers}
    url = store_url(loaded)
    if is_absent(url):
        return servers
    store = make_store(url)
    await store.open()
    vault = Vault(store.credentials, Keychain(store.credentials, source_of(loaded)))
    sealed = SealedConfigs(vault)
    try:
        for row in await store.servers.select(DEFAULT_PROJECT):
            if row.is_override:
                if (base := servers.get(row.name)) is not None:
                    servers[row.name] = replace(
                        base, enabled=bool(row.config.get("enabled", base.enabled))
                    )
                continue
            stored = await sealed.unseal(row)
            spec = server_spec(stored.name, stored.config, server_id=stored.server_id)
            servers.setdefault(stored.name, replace(spec, enabled=stored.enabled and spec.enabled))
        servers = {name: await _with_login(vault, spec) for name, spec in servers.items()}
    finally:
        await store.close()
    return servers


async def _with_login(vault: Vault, spec: ServerSpec) -> ServerSpec:
    """Return the server with its shared credentials and secrets, if there are any."""
    credentials = current_values(await vault.get(key_of(spec.name, EVERYBODY)), spec)
    secrets = stored_secrets(await vault.get(key_of(spec.name, EVERYBODY, SECRETS)), spec)
    return with_values(spec, credentials, secrets)


def is_absent(url: str) -> bool:
    """Whether the store is a file that does not exist yet."""
    prefix = "sqlite:///"
    return url.startswith(prefix) and not Path(expand_home(url.removeprefix(prefix))).exists()


async def _test(loaded: Settings, spec: ServerSpec) -> Json:
    silence_logs(loaded)
    done = await try_server(loaded, spec)
    return {
        **asdict(done.status),
        "source": spec.source,
        "ok": done.ok,
        "ready_s": done.ready_s,
        "error": done.error or None,
    }
