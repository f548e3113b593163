"""Token cost of whole tasks, compared with listing every tool; losses are shown as losses.

A conversation pays for the tool list that it is shown, for search responses, and for arguments
and results. Without Toolgate's search it would have paid for the definitions of all tools, and
for the same arguments and results. Tool lists are those of the current catalog; each is counted
once per conversation, as a context holds it. All token counts use the estimate in
`toolgate.base.token_estimate`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from toolgate.app.app import App
from toolgate.base.ids import utc_now
from toolgate.base.token_estimate import estimate_tokens
from toolgate.store import ConversationCost, ToolUsage
from toolgate.types import COMMAND_LINE, CONSOLE, DEFAULT_PROJECT, Caller, Json

_BYTES_PER_TOKEN = 4
"""Bytes; the usual estimate, checked by `python -m benchmarks.token_estimate`."""
_MOST = 5_000
"""Conversations in a report (chosen: bounds time)."""
_TOLD = 200
"""Tasks in a response (chosen: bounds its size)."""
_PINS = 5
"""Tools that are suggested for pinning (chosen: readable on one line)."""
_OFTEN = 20
"""Number of calls from which it is worth always listing a tool."""
UNUSED_S = 14 * 86_400.0
"""Seconds without a call after which a server counts as never used: two weeks, so that servers
which are needed once a week do not count (chosen)."""


@dataclass(frozen=True, kw_only=True)
class TaskCost:
    """Cost of one conversation."""

    conversation: ConversationCost
    """Its calls, searches and their sizes."""

    menu_tokens: int
    """Tokens of its `tools/list` response."""

    all_menu_tokens: int
    """Tokens of the definitions of all tools that it may use."""

    @property
    def call_tokens(self) -> int:
        """Tokens of arguments and results."""
        return -(
            -(self.conversation.request_bytes + self.conversation.response_bytes)
            // _BYTES_PER_TOKEN
        )

    @property
    def tokens(self) -> int:
        """Total tokens."""
        return self.menu_tokens + self.conversation.search_tokens + self.call_tokens

    @property
    def listed_tokens(self) -> int:
        """Total tokens if all tools had been listed."""
        return self.all_menu_tokens + self.call_tokens

    @property
    def saved_tokens(self) -> int:
        """Tokens saved against listing all tools; negative for a loss."""
        return self.listed_tokens - self.tokens

    def as_json(self) -> Json:
        """Return it as JSON for REST and `--json`."""
        return {
            **asdict(self.conversation),
            "menu_tokens": self.menu_tokens,
            "call_tokens": self.call_tokens,
            "tokens": self.tokens,
            "listed_tokens": self.listed_tokens,
            "saved_tokens": self.saved_tokens,
            "turns": self.conversation.calls + self.conversation.searches,
        }


@dataclass(frozen=True, kw_only=True)
class CostReport:
    """Cost of the conversations in a period."""

    since: str
    """Start of the period; UTC, ISO 8601."""

    tasks: tuple[TaskCost, ...]
    """Conversations, most recent first."""

    tokens: int
    """Total tokens."""

    saved_tokens: int
    """Tokens saved against listing all tools; negative for a loss."""

    def as_json(self) -> Json:
        """Return it as JSON for REST and `--json`."""
        return {
            "since": self.since,
            "conversations": len(self.tasks),
            "tokens": self.tokens,
            "listed_tokens": sum(task.listed_tokens for task in self.tasks),
            "saved_tokens": self.saved_tokens,
            "tasks": [task.as_json() for task in self.tasks[:_TOLD]],
        }


@dataclass(frozen=True, kw_only=True)
class UsageReport:
    """Usage of tools, and suggestions that follow from it."""

    since: str
    """Start of the period; UTC, ISO 8601."""

    uses: Sequence[ToolUsage]
    """Usage by tool and project, most used first."""

    pins: Sequence[str]
    """Keys of tools that are called often, mostly succeed, and are not always listed."""

    never_used: Sequence[str]
    """Names of servers that have existed for two weeks and were not called during them, nor
    since `since`."""

    def as_json(self) -> Json:
        """Return it as JSON for REST and `--json`."""
        return {
            "since": self.since,
            "tools": [
                {**asdict(use), "success_share": round(1 - use.failed / use.calls, 4)}
                for use in self.uses
            ],
            "never_used_servers": list(self.never_used),
            "pins": list(self.pins),
        }


async def usage_report(app: App, caller: Caller, since: str) -> UsageReport:
    """Return the usage of tools since a time, in all projects.

    Raises:
        ForbiddenError: The caller may not manage.
    """
    app.gateway.visible.must_manage(caller)
    uses = await app.store.audit.tool_usage(since)
    pinned = app.gateway.listing.policy.pinned()
    pins = [
        use.tool
        for use in uses[:_PINS]
        if use.tool not in pinned and use.calls >= _OFTEN and 2 * use.failed < use.calls
    ]
    return UsageReport(
        since=since,
        uses=uses,
        pins=tuple(dict.fromkeys(pins)),
        never_used=await _never_used(app, caller, since),
    )


async def _never_used(app: App, caller: Caller, since: str) -> list[str]:
    """Return servers that have existed for at least two weeks and were not called in that time."""
    two_weeks_ago = utc_now(plus_s=-UNUSED_S)
    uses = await app.store.audit.tool_usage(min(since, two_weeks_ago))
    used = {use.tool.partition(":")[0] for use in uses}
    known = await app.store.catalog.servers_seen_by(DEFAULT_PROJECT, two_weeks_ago)
    return [
        server.name
        for server in app.gateway.servers.statuses(caller)
        if server.state != "disabled" and server.name in known - used
    ]


async def cost_report(app: App, caller: Caller, since: str) -> CostReport:
    """Return the cost of conversations in all projects since a time; the last 5,000 of them.

    Raises:
        ForbiddenError: The caller may not manage.
    """
    app.gateway.visible.must_manage(caller)
    menus: dict[str, tuple[int, int]] = {}
    tasks: list[TaskCost] = []
    for cost in await app.store.audit.conversation_costs(since, limit=_MOST):
        if cost.client == CONSOLE or cost.client.startswith(COMMAND_LINE):
            continue  # a person's test, who would never have been shown all tools
        if cost.project_id not in menus:
            # A manager stands for all callers of the project; callers with fewer tools pay less.
            manager = Caller(
                caller_id="local",
                project_id=cost.project_id,
                identity=caller.identity,
                client="cost",
            )
            menu_tokens = estimate_tokens(app.gateway.listing.listing(manager))
            menus[cost.project_id] = (menu_tokens, app.gateway.visible.menu_tokens(manager))
        menu_tokens, all_menu_tokens = menus[cost.project_id]
        tasks.append(
            TaskCost(conversation=cost, menu_tokens=menu_tokens, all_menu_tokens=all_menu_tokens)
        )
    return CostReport(
        since=since,
        tasks=tuple(tasks),
        tokens=sum(task.tokens for task in tasks),
        saved_tokens=sum(task.saved_tokens for task in tasks),
    )
