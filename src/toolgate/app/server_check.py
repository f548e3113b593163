"""Tests a server separately: start, handshake, listing, timing, stop."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from toolgate.app.app import open_app
from toolgate.settings import AuditSettings, Settings, StoreSettings
from toolgate.types import Caller, ServerSpec, ServerStatus

__all__ = ["WAIT_S", "Trial", "try_server"]

WAIT_S = 30.0
"""Seconds that a server may take to answer (chosen)."""


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
    with tempfile.TemporaryDirectory(prefix="toolgate-") as folder:
        alone = replace(
            settings,
            servers=(replace(spec, enabled=True, start="always", source="trial"),),
            store=StoreSettings(url=f"sqlite:///{Path(folder).as_posix()}/trial.db"),
            audit=AuditSettings(enabled=False),
            project={},
            permission=(),
            pinned=(),
            files=(),
        )
        began = perf_counter()
        async with open_app(alone, wait_s=WAIT_S) as app:
            ready_s = perf_counter() - began
            status = app.gateway.servers.statuses(Caller.local())[0]
            tools = tuple(
                tool.name
                for tool in app.gateway.visible.tools(Caller.local())
                if tool.server == spec.name
            )
    is_ok = status.state == "ready"
    error = spec.problem or status.last_error or f"No answer within {WAIT_S:.0f} seconds."
    return Trial(
        ok=is_ok,
        ready_s=round(ready_s, 3),
        error="" if is_ok else error,
        status=status,
        tools=tools,
    )
