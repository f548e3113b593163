"""Test servers without a gateway: start, handshake, list, measure the time, stop."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from toolgate.app.server_check import try_server
from toolgate.cli.client._load_settings import store_url, unknown_server
from toolgate.cli.client._local_gateway import silence_logs
from toolgate.security.credentials import (
    EVERYBODY,
    Keychain,
    SealedConfigs,
    Vault,
    current_values,
    key_of,
    source_of,
)
from toolgate.settings import Settings, expand_home, server_spec
from toolgate.store import make_store
from toolgate.types import DEFAULT_PROJECT, Json, ServerSpec, json_object

__all__ = ["configured_servers", "test_all_servers", "test_servers"]


async def test_all_servers(loaded: Settings) -> AsyncIterator[Json]:
    """Test all enabled servers, one after the other; yields each result."""
    for spec in (await configured_servers(loaded)).values():
        if spec.enabled:
            yield await _test(loaded, spec)


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
    """Servers of the configuration files and of the store, by name."""
    servers = {spec.name: spec for spec in loaded.servers}
    url = store_url(loaded)
    if _is_absent(url):
        return servers
    store = make_store(url)
    await store.open()
    vault = Vault(store.credentials, Keychain(store.credentials, source_of(loaded)))
    sealed = SealedConfigs(vault)
    try:
        for row in await store.servers.select(DEFAULT_PROJECT):
            stored = await sealed.unseal(row)
            spec = server_spec(stored.name, stored.config, server_id=stored.server_id)
            servers.setdefault(stored.name, replace(spec, enabled=stored.enabled and spec.enabled))
        servers = {name: await _with_login(vault, spec) for name, spec in servers.items()}
    finally:
        await store.close()
    return servers


async def _with_login(vault: Vault, spec: ServerSpec) -> ServerSpec:
    """The server with its shared credentials, if there are any."""
    credentials = current_values(await vault.get(key_of(spec.name, EVERYBODY)), spec)
    options = dict(spec.options)
    for name, values in credentials.items():
        options[name] = {**json_object(options.get(name)), **values}
    return replace(spec, options=options)


def _is_absent(url: str) -> bool:
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
