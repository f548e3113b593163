"""Find secrets of imported servers and move them to the encrypted store."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, count
from typing import TypeAlias

from toolgate.cli.client._load_settings import store_url
from toolgate.security.credentials import (
    EVERYBODY,
    SECRETS,
    Keychain,
    Vault,
    key_of,
    secrets_credential,
    source_of,
    static_credential,
)
from toolgate.security.guards import secret_scanner
from toolgate.settings import Settings, redact, server_spec
from toolgate.store import make_store
from toolgate.types import Json, json_array, json_object

Secrets: TypeAlias = Mapping[str, Mapping[str, str]]
"""Values by name, under `env`, `headers` and `secrets`. WARNING: never show them."""

_NAME = re.compile(
    r"(?i)token|key|secret|passw|pwd|credential|auth|cookie|dsn|bearer|(?:^|[_-])(?:pat|pin|jwt)$"
)

_ALWAYS = re.compile(r"(?i)secret|passw|pwd|(?:^|[_-])pin$")
"""Names whose values are secret even if they are numbers."""

_PLAIN = re.compile(r"(?i)\d{1,9}|true|false|yes|no|on|off|none|[~.]{0,2}[/\\].*|[a-z]:\\.*")
"""Values that are not secret, whatever their name: numbers, switches, paths of key files."""


_USER_IN_URL = re.compile(r"(?<=://)[^/?#\s@]*:[^/?#\s]+(?=@)")
"""User and password of a URL, which may be part of an argument (RFC 3986 section 3.2.1)."""

_CERTAIN = re.compile(
    r"(?:[\w-]+: *)?(?:(?:Bearer|Basic|[Tt]oken) )?\$\{[^}]*\}@?|(?<=://)git@|[?&][^&#\s]*"
)
"""Parts of an argument or a URL of which it is certain that they show no secret any more."""

_PARAMETER = re.compile(r"(?<=[?&])([^=&#\s]+)=([^&#\s]+)")
"""A parameter of a URL and its value."""

_NAMED_ARGUMENT = re.compile(r"-{0,2}([\w.-]+)=(.+)|([\w-]+): *(.+)", re.DOTALL)
"""`--api-key=VALUE`, `API_KEY=VALUE`, or a header: `Authorization: VALUE`."""


def take_secrets(config: Json) -> tuple[Json, Secrets]:
    """Separate secrets from the configuration of a server; return both.

    Variables and headers are removed; `${secret:NAME}` replaces what is in arguments and the URL.

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
    arguments = json_array(config.get("args"))
    secrets = dict[str, str]()
    if isinstance(config.get("url"), str):
        left["url"] = _with_references(config["url"], _in_text("", config["url"]), secrets)
    if arguments:
        left["args"] = [
            part
            if isinstance(part, bool)
            else _with_references(part, _in_text(str(before), str(part)), secrets)
            for before, part in zip(["", *arguments], arguments, strict=False)
        ]
    if secrets:
        taken[SECRETS] = secrets
    return left, taken


def may_show_secret(config: Json) -> bool:
    """Return whether a secret may be in the arguments or the URL, apart from references."""
    parts = [config.get("url", ""), *json_array(config.get("args"))]
    texts = ["" if _PLAIN.fullmatch(str(part)) else _CERTAIN.sub("", str(part)) for part in parts]
    return redact({"args": texts})["args"] != texts


def names_of(secrets: Secrets) -> list[str]:
    """Return the names of the variables, headers and secrets, without their values."""
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
            left, taken = take_secrets(config)
            spec = server_spec(name, left)
            headers, env = taken.get("headers", {}), taken.get("env", {})
            key = key_of(name, EVERYBODY)
            old = await vault.get(key)
            if headers or env:
                await vault.save(key, *static_credential(spec, headers, env, by="init"))
            elif old is not None and old.secret.get("form") == "static":
                # They belong to an earlier server with this name.
                await vault.delete(server=name, subject=EVERYBODY, kind=key.kind)
            if secrets := taken.get(SECRETS):
                key = key_of(name, EVERYBODY, SECRETS)
                await vault.save(key, *secrets_credential(spec, secrets, by="init"))
            else:
                await vault.delete(server=name, subject=EVERYBODY, kind=SECRETS)
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
            for kind in ("login", SECRETS):
                await vault.delete(server=name, subject=EVERYBODY, kind=kind)
    finally:
        await store.close()


def _in_text(before: str, text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, start and end of each secret in an argument or a URL, from left to right.

    Args:
        before: The argument before it, which may be an option that names it.
        text: The argument or the URL.
    """
    named = _NAMED_ARGUMENT.fullmatch(text)
    if "://" in text:
        yield from _in_url(text)
        return
    if named is not None:
        group = 2 if named[1] else 4
        if _is_secret(name := named[group - 1], named[group]):
            yield name, *named.span(group)
    elif before.startswith("-") and not text.startswith("-"):
        if _is_secret(before, text):
            yield before, 0, len(text)
    elif _is_secret("", text):
        yield secret_scanner().find(text)[0].name, 0, len(text)


def _in_url(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, start and end of each secret in a text with a URL, from left to right."""
    parts: list[tuple[str, int, int]] = []
    at = 0
    if user := _USER_IN_URL.search(text):
        parts.append(("password", *user.span()))
        at = user.end()
    parts += [
        (parameter[1], *parameter.span(2))
        for parameter in _PARAMETER.finditer(text, at)
        if _is_secret(parameter[1], parameter[2])
    ]
    # Also a token as the user or in the path.
    parts += [
        (match.name, match.start, match.end)
        for match in secret_scanner().find(text)
        if not any(match.start < end and start < match.end for _, start, end in parts)
    ]
    for name, start, end in sorted(parts, key=lambda part: part[1]):
        if "${" not in text[start:end]:
            yield name, start, end


def _with_references(
    value: str | float, secrets: Iterator[tuple[str, int, int]], taken: dict[str, str]
) -> str | float:
    """Replace secrets in a value with references to them, and add them to `taken` by name."""
    text, parts, at = str(value), list[str](), 0
    for name, start, end in secrets:
        snake = re.sub(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", "_", name).strip("_").upper()
        base = snake if snake[:1].isalpha() else f"SECRET_{snake}".rstrip("_")
        names = chain((base,), (f"{base}_{number}" for number in count(2)))
        key = next(key for key in names if taken.get(key, text[start:end]) == text[start:end])
        taken[key] = text[start:end]
        parts += [text[at:start], f"${{secret:{key}}}"]
        at = end
    return "".join([*parts, text[at:]]) if parts else value


def _is_secret(name: str, value: object) -> bool:
    if not isinstance(value, str) or not value or "${" in value:
        return False
    if _ALWAYS.search(name) is not None:
        return True
    is_named = _NAME.search(name) is not None and _PLAIN.fullmatch(value) is None
    return is_named or bool(secret_scanner().find(value))
