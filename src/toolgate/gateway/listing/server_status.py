"""The state of the servers, as a caller may see it."""

from collections.abc import Sequence
from dataclasses import replace

from toolgate.gateway.parts import GatewayContext
from toolgate.types import (
    Caller,
    ServerStatus,
)


class ServerStatusService:
    """Shows callers the state of the servers."""

    def __init__(self, context: GatewayContext) -> None:
        self._catalog = context.catalog
        self._access = context.access
        self._visible = context.visible

    def statuses(self, caller: Caller) -> list[ServerStatus]:
        """The state of every server that the caller may see."""
        return self._as_seen_by(caller, self._catalog.statuses())

    def status(self, caller: Caller, name: str) -> ServerStatus | None:
        """The state of a server; None if the caller cannot see such a server."""
        status = self._catalog.status(name)
        return next(iter(self._as_seen_by(caller, [] if status is None else [status])), None)

    def names(self, caller: Caller) -> list[str]:
        """Names of the servers that the caller may see."""
        return [
            spec.name
            for spec in self._catalog.specs
            if self._access.decide(caller, "server", spec.name).allowed
        ]

    def has_unlisted(self) -> bool:
        """Whether a server is starting whose tools have never been listed."""
        return bool(self._catalog.never_listed())

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` seconds until every server is listed or has failed."""
        await self._catalog.wait_listed(timeout_s)

    def _as_seen_by(self, caller: Caller, statuses: Sequence[ServerStatus]) -> list[ServerStatus]:
        """The states of visible servers; only administrators see projects and quarantined tools."""
        visible = [
            status
            for status in statuses
            if self._access.decide(caller, "server", status.name).allowed
        ]
        if self._access.decide(caller, "right", "manage").allowed:
            overridden = {spec.name: spec.overridden for spec in self._catalog.specs}
            return [
                replace(status, projects=projects, overridden=overridden.get(status.name, ()))
                if projects or overridden.get(status.name)
                else status
                for status, projects in (
                    (status, self._access.projects_of(status.name)) for status in visible
                )
            ]
        snapshot = self._catalog.snapshot
        mask = self._access.mask(caller, snapshot)
        return [
            replace(
                _public(status),
                tools=self._visible.tool_count(snapshot, status.name, mask),
            )
            for status in visible
        ]


_UNREACHABLE = "It cannot be reached; administrators see why."


def _public(status: ServerStatus) -> ServerStatus:
    """What callers without the right to manage may know about a server."""
    return replace(
        status,
        held=0,
        last_error=status.last_error and (status.login_hint or _UNREACHABLE),
        stderr_tail=(),
        override_problems=(),
        pid=None,
        source="",
    )
