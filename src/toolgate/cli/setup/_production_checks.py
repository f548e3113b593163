"""What must be so before others depend on a gateway; the list is in `docs/operations.md`."""

from collections.abc import AsyncIterator

from toolgate.base.ids import utc_now
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.setup._checks import Check
from toolgate.errors import ToolgateError
from toolgate.settings import Settings
from toolgate.store import StoredToken, StoreMaintenance, make_store

__all__ = ["run_production_checks"]


async def run_production_checks() -> AsyncIterator[Check]:
    """Look at what can be seen from settings and store."""
    try:
        loaded = load_settings()
    except ToolgateError:
        return  # the other checks say so
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
        'Set auth = "required", and make tokens with: toolgate tokens create NAME',
        "A token is needed.",
        "Whoever reaches the gateway may do everything.",
        is_good=loaded.auth == "required",
    )


def _transport(loaded: Settings) -> Check:
    is_named = bool(loaded.tls.cert or loaded.serve.trusted_proxies)
    is_local = loaded.serve.host in {"127.0.0.1", "localhost", "::1"}
    return _check(
        "transport",
        "Set tls.cert and tls.key, or put a proxy in front and name it in serve.trusted_proxies.",
        "Requests are encrypted, or a proxy of this machine is asked for that.",
        "Tokens travel over the network as they are.",
        is_good=is_named or is_local,
    )


def _tool_changes(loaded: Settings) -> Check:
    return _check(
        "changes of tools",
        'Set quarantine = "changed": a server that changes a tool then waits for a person.',
        "Tools that change are held back until somebody has looked.",
        f"Tools that change are used at once (quarantine = {loaded.quarantine!r}).",
        is_good=loaded.quarantine in {"changed", "new"},
    )


def _limits(loaded: Settings) -> Check:
    limits = loaded.limits
    configured = (limits.calls_per_minute, limits.concurrent_calls, limits.calls_per_day)
    return _check(
        "limits",
        "Set some of [limits]: calls_per_minute, concurrent_calls, calls_per_day.",
        "A caller can do only so much.",
        "One caller can take all that the servers give.",
        is_good=any(configured) or bool(limits.tools),
    )


def _monitoring(loaded: Settings) -> Check:
    return _check(
        "seeing",
        'Set metrics.enabled = true and log.format = "json".',
        "Numbers and logs are there for programs.",
        "Nobody is told when something goes wrong.",
        is_good=loaded.metrics.enabled and loaded.log.format == "json",
    )


def _audit(loaded: Settings) -> Check:
    return _check(
        "audit",
        "Set audit.enabled = true.",
        "What is searched and called is recorded.",
        "Nothing is recorded.",
        is_good=loaded.audit.enabled,
    )


def _store(loaded: Settings) -> Check:
    if store_url(loaded).startswith("sqlite"):
        return Check(
            name="production store",
            state="warning",
            found="The store is a file: one gateway can use it, on this machine.",
            hint="For several replicas set store.url to a PostgreSQL. Back the file up every day:"
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
        return  # the other checks say so
    finally:
        await store.close()
    current_time = utc_now()
    valid = [
        token
        for token in tokens
        if token.revoked_at is None and (token.expires_at or "~") > current_time
    ]
    yield _check(
        "ends of tokens",
        "Renew them with an end: toolgate tokens rotate NAME --expires 90d",
        "Every token ends.",
        f"These never end: {_names([token for token in valid if token.expires_at is None])}.",
        is_good=all(token.expires_at for token in valid),
    )
    admins = [token for token in valid if "admin" in token.roles]
    if len(admins) > _MAX_ADMINS:
        yield Check(
            name="production admins",
            state="warning",
            found=f"{len(admins)} tokens may do everything: {_names(admins)}.",
            hint="Give most of them a smaller role.",
        )


_MAX_ADMINS = 5


def _names(tokens: list[StoredToken]) -> str:
    names = [token.name for token in tokens]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
