"""Tests servers separately: start, handshake, listing, timing, stop."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

import anyio

from toolgate.app.app import open_app
from toolgate.settings import (
    AuditSettings,
    Settings,
    StoreSettings,
    child_environment,
    proxies,
)
from toolgate.types import Caller, ServerSpec, ServerStatus

_CALLER = Caller.local()

WAIT_S = 30.0
"""Seconds that a server may take to answer (chosen)."""

_PROXY_S = 2.0
"""Seconds that a proxy may take to accept a connection (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The result of testing a server."""

    ok: bool
    """Whether it works."""

    ready_s: float
    """Seconds until its tools were listed, or until it failed."""

    error: str
    """Why it does not work; empty if it does."""

    status: ServerStatus
    """Its status."""

    tools: tuple[str, ...]
    """Names of its tools."""


async def try_server(settings: Settings, spec: ServerSpec) -> Trial:
    """Start a separate instance of a server, list its tools, and stop it; nothing is saved."""
    return (await try_servers(settings, [spec]))[spec.name]


async def try_servers(settings: Settings, specs: Sequence[ServerSpec]) -> dict[str, Trial]:
    """Do the same with several servers at once; returns the results by name."""
    with tempfile.TemporaryDirectory(prefix="toolgate-") as folder:
        alone = replace(
            settings,
            servers=tuple(
                replace(spec, enabled=True, start="always", source="trial") for spec in specs
            ),
            store=StoreSettings(url=f"sqlite:///{Path(folder).as_posix()}/trial.db"),
            audit=AuditSettings(enabled=False),
            project={},
            permission=(),
            pinned=(),
            files=(),
        )
        began, began_at = perf_counter(), datetime.now(UTC)
        async with open_app(alone, wait_s=WAIT_S) as app:
            took_s = perf_counter() - began
            statuses = {status.name: status for status in app.gateway.servers.statuses(_CALLER)}
            tools = app.gateway.visible.tools(_CALLER)
    return {
        spec.name: _trial(
            spec,
            statuses[spec.name],
            tuple(tool.name for tool in tools if tool.server == spec.name),
            began_at,
            took_s,
            "" if _has_ended(statuses[spec.name]) else await _dead_proxy(spec),
        )
        for spec in specs
    }


def _has_ended(status: ServerStatus) -> bool:
    """Whether a server is ready, or has said why it is not."""
    return status.state == "ready" or bool(status.last_error)


async def _dead_proxy(spec: ServerSpec) -> str:
    """Add to a sentence that no proxy is where the environment of a server's process names one.

    Programs such as npx retry for longer than a test takes, and print nothing meanwhile.
    """
    if spec.kind != "stdio":
        return ""
    variables = cast("Mapping[str, str]", spec.options.get("env") or {})
    proxy = next(filter(None, proxies(child_environment(variables))[:2]), "")
    try:
        parts = urlsplit(proxy)
        if parts.hostname:
            with anyio.fail_after(_PROXY_S):
                await (await anyio.connect_tcp(parts.hostname, parts.port or 80)).aclose()
    except (OSError, ValueError):
        return f": the proxy variables name {proxy.rpartition('@')[2]}, where nothing answers"
    return ""


def _trial(
    spec: ServerSpec,
    status: ServerStatus,
    tools: tuple[str, ...],
    began_at: datetime,
    took_s: float,
    dead: str,
) -> Trial:
    is_ok = status.state == "ready"
    if is_ok and status.listed_at:
        took_s = min(took_s, (datetime.fromisoformat(status.listed_at) - began_at).total_seconds())
    error = spec.problem or status.last_error or f"No answer within {WAIT_S:.0f} seconds{dead}."
    return Trial(
        ok=is_ok,
        ready_s=round(max(0.0, took_s), 3),
        error="" if is_ok else error,
        status=status,
        tools=tools,
    )
