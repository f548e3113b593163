"""The archive for a bug report: diagnostics without secrets."""

import json
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

from toolgate import settings
from toolgate.base import logs
from toolgate.base.ids import utc_now
from toolgate.base.processes import run_file
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.setup._check import Check
from toolgate.cli.setup._checks import versions
from toolgate.errors import SettingError, ToolgateError
from toolgate.settings import Settings
from toolgate.types import Json, ServerSpec

_MIN_SECRET_CHARS = 4
"""Shorter values (`1`, `on`) are not secrets; masking them would mask everything (chosen)."""

_LOOKS_SECRET = re.compile(
    r"(?i)(?:\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{8,}|\bgithub_pat_\w{8,}"
    r"|\bglpat-[\w-]{8,}|\bxox[abprs]-[\w-]{8,}|\bAKIA[0-9A-Z]{12,}|\beyJ[\w-]{8,}\.[\w.-]+)"
)

_NAMED_SECRET = re.compile(
    r"(?i)((?:[\w-]*(?:token|secret|password|passwd|api[_-]?key|authorization|credential)[\w-]*)"
    r"[\"']?\s*[=:]\s*[\"']?)(?!\*\*\*)([^\s\"',;&}]+)"
)

_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")

_HIDDEN = "***"

_PACKED = zipfile.ZIP_DEFLATED


async def write_bundle(path: Path, checks: Sequence[Check]) -> None:
    """Write the archive.

    Raises:
        SettingError: The file cannot be written.
    """
    try:
        loaded: Settings | None = load_settings()
    except ToolgateError:
        loaded = None
    scrub = Scrubber(loaded.servers if loaded else (), loaded)
    parts: Json = {
        "versions.json": versions(),
        "doctor.json": [asdict(check) for check in checks],
        "servers.json": list(_servers(checks)),
    }
    if loaded is not None:
        parts["configuration.json"] = configuration(loaded)
        if loaded.log.file:
            parts["log.txt"] = "\n".join(logs.tail(Path(settings.expand_home(loaded.log.file))))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            os.fdopen(_create_file(path), "w+b") as file,
            zipfile.ZipFile(file, "w", _PACKED) as archive,
        ):
            archive.writestr("made_at.txt", f"{utc_now()}\n")
            for name, part in parts.items():
                clean = scrub.tree(part)
                text = clean if isinstance(clean, str) else json.dumps(clean, indent=2, default=str)
                archive.writestr(name, text)
    except OSError as error:
        raise SettingError(
            f"The archive {str(path)!r} cannot be written: {error.strerror or error}.",
            hint="Choose a file in a writable folder.",
        ) from error


def _servers(checks: Iterable[Check]) -> Iterable[Json]:
    """Yield what is known about each server; a check can be about several."""
    for check in checks:
        if not check.name.startswith(("server ", "servers ")) or not check.details:
            continue
        for server in check.details.get("servers", [check.details]):
            if isinstance(server, str):  # known not to work, so that it was not started
                yield {"name": server, "ok": False, "error": check.found}
            else:
                yield server


def _create_file(path: Path) -> int:
    """Create a file that only this user can read; others may be able to read an existing one."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)


def configuration(loaded: Settings) -> Json:
    """Return the settings without secrets."""
    values = asdict(loaded)
    values["store"]["url"] = run_file.without_password(store_url(loaded))
    for name in ("options", "embedder_options"):
        values["search"][name] = _without_secrets(values["search"][name])
    for name, connection in loaded.connections.items():
        values["connections"][name]["url"] = run_file.without_password(
            connection.url.partition("?")[0]
        )
    tokens = loaded.catalog_search.tokens
    values["catalog_search"]["tokens"] = {name: len(secrets) for name, secrets in tokens.items()}
    values["servers"] = [
        asdict(spec) | {"options": settings.redact(dict(spec.options))} for spec in loaded.servers
    ]
    return values


class Scrubber:
    """Masks known secrets, and everything that looks like one."""

    def __init__(self, servers: Iterable[ServerSpec], loaded: Settings | None = None) -> None:
        secrets: set[str] = set()
        for spec in servers:
            secrets |= set(_secrets(dict(spec.options)))
        if loaded is not None:
            secrets |= set(_texts_under_secret_names(loaded.search.options))
            secrets |= set(_texts_under_secret_names(loaded.search.embedder_options))
            secrets |= {token for keys in loaded.catalog_search.tokens.values() for token in keys}
            for url in (
                loaded.store.url,
                *(connection.url for connection in loaded.connections.values()),
            ):
                secrets.add(url.partition("://")[2].rpartition("@")[0].partition(":")[2])
        longest_first = sorted(
            (v for v in secrets if len(v) >= _MIN_SECRET_CHARS), key=len, reverse=True
        )
        self._secrets = (
            re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        )

    def __call__(self, text: str) -> str:
        """Return the text with secrets masked."""
        if self._secrets is not None:
            text = self._secrets.sub(_HIDDEN, text)
        text = _LOOKS_SECRET.sub(_HIDDEN, text)
        text = _NAMED_SECRET.sub(rf"\1{_HIDDEN}", text)
        return _IN_URL.sub(f"{_HIDDEN}@", text)

    def tree(self, value: object) -> object:
        """Return a JSON value with secrets masked; keys and numbers are unchanged."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            mapping = cast("Mapping[str, object]", value)
            return {name: self.tree(inner) for name, inner in mapping.items()}
        if isinstance(value, (list, tuple)):
            return [self.tree(inner) for inner in cast("Sequence[object]", value)]
        return value


_SECRET_OPTIONS = ("key", "token", "password", "secret")


def _without_secrets(options: Mapping[str, object]) -> Json:
    """Return options without the values whose name indicates a secret."""
    values: Json = {}
    for name, value in options.items():
        if any(word in name.lower() for word in _SECRET_OPTIONS):
            values[name] = _HIDDEN
        elif isinstance(value, Mapping):
            values[name] = _without_secrets(cast("Mapping[str, object]", value))
        else:
            values[name] = value
    return values


def _texts_under_secret_names(options: Mapping[str, object]) -> Iterable[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _texts_under_secret_names(cast("Mapping[str, object]", value))
        elif isinstance(value, str) and any(word in name.lower() for word in _SECRET_OPTIONS):
            yield value


def _secrets(options: Json) -> Iterable[str]:
    """Return all values that `redact` masks."""
    redacted = settings.redact(options)
    for name, value in options.items():
        yield from _redacted_values(value, redacted.get(name))


def _redacted_values(value: object, redacted: object) -> Iterable[str]:
    if isinstance(value, dict) and isinstance(redacted, dict):
        visible = cast("Json", redacted)
        for name, inner in cast("Json", value).items():
            yield from _redacted_values(inner, visible.get(name))
    elif isinstance(value, (list, tuple)) and isinstance(redacted, (list, tuple)):
        pairs = zip(
            cast("Sequence[object]", value), cast("Sequence[object]", redacted), strict=False
        )
        for inner, visible_inner in pairs:
            yield from _redacted_values(inner, visible_inner)
    elif isinstance(value, str) and value != redacted:
        yield from _secret_parts(value)


def _secret_parts(value: str) -> Iterable[str]:
    """Return a secret value, and its parts that may occur on their own."""
    yield value
    scheme, blank, rest = value.partition(" ")
    if blank and scheme.lower() in {"bearer", "basic", "token"}:
        yield rest
    if "://" in value:
        account = value.partition("://")[2].partition("/")[0].rpartition("@")[0]
        yield account
        yield account.partition(":")[2]
        for pair in value.partition("?")[2].split("&"):
            yield pair.partition("=")[2]
    elif "=" in value:
        yield value.partition("=")[2]
