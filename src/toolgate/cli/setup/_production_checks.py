"""Checks for gateways in production; listed in `docs/operations.md`."""

from collections.abc import AsyncIterator

from toolgate.base.ids import utc_now
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.setup._check import Check
from toolgate.errors import ToolgateError
from toolgate.settings import Settings
from toolgate.store import StoredToken, StoreMaintenance, make_store


async def run_production_checks() -> AsyncIterator[Check]:
    """Check settings and store."""
    try:
        loaded = load_settings()
    except ToolgateError:
        return  # reported by another check
    for check in (
        _authentication(loaded),
        _transport(loaded),
        _tool_changes(loaded),
        _limits(loaded),
        _monitoring(loaded),
        _audit(loaded),
        _store(loaded),
    ):
        yield check
    async for check in _tokens(loaded):
        yield check


def _check(name: str, hint: str, good: str, bad: str, *, is_good: bool) -> Check:
    if is_good:
        return Check(name=f"production {name}", state="ok", found=good)
    return Check(name=f"production {name}", state="problem", found=bad, hint=hint)


def _authentication(loaded: Settings) -> Check:
    return _check(
        "access",
        'Set auth = "required", and create tokens: toolgate tokens create NAME',
        "Clients need a token.",
        "Everyone who can connect has all rights.",
        is_good=loaded.auth == "required",
    )


def _transport(loaded: Settings) -> Check:
    is_named = bool(loaded.tls.cert or loaded.serve.trusted_proxies)
    is_local = loaded.serve.host in {"127.0.0.1", "localhost", "::1"}
    return _check(
        "transport",
        "Set tls.cert and tls.key, or put a proxy in front and name it in serve.trusted_proxies.",
        "Requests are encrypted, by the gateway or a proxy.",
        "Tokens are sent unencrypted.",
        is_good=is_named or is_local,
    )


def _tool_changes(loaded: Settings) -> Check:
    return _check(
        "tool changes",
        'Set quarantine = "changed": changed definitions then await approval.',
        "Changed definitions are quarantined until approved.",
        f"Changed definitions are used immediately (quarantine = {loaded.quarantine!r}).",
        is_good=loaded.quarantine in {"changed", "new"},
    )


def _limits(loaded: Settings) -> Check:
    limits = loaded.limits
    configured = (limits.calls_per_minute, limits.concurrent_calls, limits.calls_per_day)
    return _check(
        "limits",
        "Set some of [limits]: calls_per_minute, concurrent_calls, calls_per_day.",
        "The use per caller is limited.",
        "One caller can use up the capacity of all servers.",
        is_good=any(configured) or bool(limits.tools),
    )


def _monitoring(loaded: Settings) -> Check:
    return _check(
        "monitoring",
        'Set metrics.enabled = true and log.format = "json".',
        "Metrics and structured logs are enabled.",
        "Failures go unnoticed.",
        is_good=loaded.metrics.enabled and loaded.log.format == "json",
    )


def _audit(loaded: Settings) -> Check:
    return _check(
        "audit",
        "Set audit.enabled = true.",
        "Searches and calls are recorded.",
        "Nothing is recorded.",
        is_good=loaded.audit.enabled,
    )


def _store(loaded: Settings) -> Check:
    if store_url(loaded).startswith("sqlite"):
        return Check(
            name="production store",
            state="warning",
            found="The store is a file, for one gateway on this machine.",
            hint="For several replicas set store.url to PostgreSQL. Back up the file daily:"
            " toolgate db backup FILE",
        )
    return Check(name="production store", state="ok", found="Several replicas can use the store.")


async def _tokens(loaded: Settings) -> AsyncIterator[Check]:
    store = make_store(store_url(loaded))
    try:
        if isinstance(store, StoreMaintenance) and not await store.exists():
            return
        await store.open()
        tokens = await store.access.tokens()
    except ToolgateError:
        return  # reported by another check
    finally:
        await store.close()
    current_time = utc_now()
    valid = [
        token
        for token in tokens
        if token.revoked_at is None and (token.expires_at or "~") > current_time
    ]
    yield _check(
        "token expiry",
        "Rotate them with an expiry: toolgate tokens rotate NAME --expires 90d",
        "All tokens expire.",
        f"These never expire: {_names([token for token in valid if token.expires_at is None])}.",
        is_good=all(token.expires_at for token in valid),
    )
    admins = [token for token in valid if "admin" in token.roles]
    if len(admins) > _MAX_ADMINS:
        yield Check(
            name="production admins",
            state="warning",
            found=f"{len(admins)} tokens have all rights: {_names(admins)}.",
            hint="Give most of them a role with fewer rights.",
        )


_MAX_ADMINS = 5
"""Number of tokens with all rights above which there is a warning (chosen)."""


def _names(tokens: list[StoredToken]) -> str:
    names = [token.name for token in tokens]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
