"""Find secrets of imported servers and move them to the encrypted store."""

import re
from collections.abc import Mapping
from typing import TypeAlias

from toolgate.cli.client._load_settings import store_url
from toolgate.security.credentials import (
    EVERYBODY,
    Keychain,
    Vault,
    key_of,
    source_of,
    static_credential,
)
from toolgate.security.guards import secret_scanner
from toolgate.settings import Settings, server_spec
from toolgate.store import make_store
from toolgate.types import Json, json_object

Secrets: TypeAlias = Mapping[str, Mapping[str, str]]
"""Values by name, under `env` and `headers`. WARNING: never show them."""

_NAME = re.compile(
    r"(?i)token|key|secret|passw|pwd|credential|auth|cookie|dsn|bearer|(?:^|[_-])(?:pat|pin|jwt)$"
)

_ALWAYS = re.compile(r"(?i)secret|passw|pwd|(?:^|[_-])pin$")
"""Names whose values are secret even if they are numbers."""

_PLAIN = re.compile(r"(?i)\d{1,9}|true|false|yes|no|on|off|none|[~.]{0,2}[/\\].*|[a-z]:\\.*")
"""Values that are not secret, whatever their name: numbers, switches, paths of key files."""


def take_secrets(config: Json) -> tuple[Json, Secrets]:
    """Separate secret variables and headers from the configuration of a server; return both.

    Args:
        config: Has the keys of `[server.NAME]`. References such as `${env:NAME}` stay in it.
    """
    left, taken = dict(config), dict[str, Mapping[str, str]]()
    for table in ("env", "headers"):
        values = json_object(config.get(table))
        secrets = {name: text for name, text in values.items() if _is_secret(name, text)}
        if secrets:
            taken[table] = {name: str(text) for name, text in secrets.items()}
            left[table] = {name: text for name, text in values.items() if name not in secrets}
            if not left[table]:
                del left[table]
    return left, taken


def names_of(secrets: Secrets) -> list[str]:
    """Return the names of the variables and headers, without their values."""
    return [name for table in secrets.values() for name in table]


async def store_secrets(loaded: Settings, configs: Mapping[str, Json]) -> None:
    """Save the secrets of servers in the store, encrypted, replacing those of earlier servers.

    Args:
        loaded: Settings with the store.
        configs: Complete configurations of the servers, by their names in Toolgate.

    Raises:
        SettingError: The key for credentials cannot be used.
        StoreError: The store cannot be written.
    """
    store = make_store(store_url(loaded))
    await store.open()
    try:
        vault = Vault(store.credentials, Keychain(store.credentials, source_of(loaded)))
        for name, config in configs.items():
            key = key_of(name, EVERYBODY)
            left, secrets = take_secrets(config)
            if secrets:
                spec = server_spec(name, left)
                headers, env = secrets.get("headers", {}), secrets.get("env", {})
                secret, details = static_credential(spec, headers, env, by="init")
                await vault.save(key, secret, details)
            elif (old := await vault.get(key)) is not None and old.secret.get("form") == "static":
                # They belong to an earlier server with this name.
                await vault.delete(server=name, subject=EVERYBODY, kind="login")
    finally:
        await store.close()


async def forget_secrets(loaded: Settings, names: list[str]) -> None:
    """Delete what `store_secrets` saved for these servers.

    Raises:
        StoreError: The store cannot be written.
    """
    store = make_store(store_url(loaded))
    await store.open()
    try:
        vault = Vault(store.credentials, Keychain(store.credentials, source_of(loaded)))
        for name in names:
            await vault.delete(server=name, subject=EVERYBODY, kind="login")
    finally:
        await store.close()


def _is_secret(name: str, value: object) -> bool:
    if not isinstance(value, str) or not value or "${" in value:
        return False
    if _ALWAYS.search(name) is not None:
        return True
    is_named = _NAME.search(name) is not None and _PLAIN.fullmatch(value) is None
    return is_named or bool(secret_scanner().find(value))
