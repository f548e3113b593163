"""The menu of the console: its pages by group, with counts of pending items."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass, field

from toolgate.console.request import Badge, PageRequest
from toolgate.errors import ToolgateError

log = logging.getLogger(__name__)

_BADGE_WAIT_S = 0.2
"""Seconds that a page waits for the counts of the menu (chosen: not noticeable)."""


@dataclass(frozen=True, kw_only=True)
class MenuPage:
    """A page in the menu."""

    path: str
    """Path below the console's URL."""

    name: str
    """Its label."""

    group: str = ""
    """Heading of its group; empty: none."""

    icon: str
    """Name of its icon in `icons.html`."""

    key: str = ""
    """Key that opens it after `g`; empty: none."""

    manages: bool = False
    """Whether only administrators see it."""

    words: tuple[str, ...] = field(default=())
    """Further search terms."""


MENU = (
    MenuPage(path="", name="Home", icon="home", key="h", words=("overview", "dashboard")),
    MenuPage(path="servers", name="Servers", group="Tools", icon="server", key="s"),
    MenuPage(path="tools", name="Tools", group="Tools", icon="tool", key="t"),
    MenuPage(path="search", name="Search", group="Tools", icon="search", key="f"),
    MenuPage(path="intents", name="Intents", group="Tools", icon="intent", key="i"),
    MenuPage(
        path="connections",
        name="Connections",
        group="Tools",
        icon="database",
        key="n",
        manages=True,
        words=("databases", "schema", "tables", "sql", "query log"),
    ),
    MenuPage(path="packs", name="Packs", group="Tools", icon="pack", key="b", manages=True),
    MenuPage(path="approvals", name="Approvals", group="Activity", icon="approval", key="a"),
    MenuPage(path="audit", name="Audit", group="Activity", icon="audit", key="l", manages=True),
    MenuPage(path="cost", name="Cost", group="Activity", icon="cost", key="c", manages=True),
    MenuPage(path="chat", name="Chat", group="Models", icon="chat", key="m"),
    MenuPage(path="documents", name="Documents", group="Models", icon="document", key="d"),
    MenuPage(
        path="prompts",
        name="Prompts",
        group="Models",
        icon="prompt",
        key="o",
        words=("texts", "instructions"),
    ),
    MenuPage(
        path="evaluation",
        name="Evaluation",
        group="Models",
        icon="evaluation",
        key="e",
        manages=True,
    ),
    MenuPage(
        path="projects", name="Projects", group="Access", icon="project", key="p", manages=True
    ),
    MenuPage(
        path="tokens", name="Access tokens", group="Access", icon="token", key="k", manages=True
    ),
    MenuPage(
        path="permissions",
        name="Permissions",
        group="Access",
        icon="permission",
        key="r",
        manages=True,
        words=("rules", "roles", "policies"),
    ),
    MenuPage(path="guards", name="Guards", group="Access", icon="guard", key="u", manages=True),
    MenuPage(
        path="logins",
        name="Credentials",
        group="Access",
        icon="credential",
        words=("logins", "oauth", "secrets"),
    ),
    MenuPage(
        path="settings",
        name="Settings",
        group="System",
        icon="settings",
        key="x",
        manages=True,
        words=("configuration", "toolgate.toml", "options"),
    ),
    MenuPage(
        path="sessions",
        name="Console logins",
        group="System",
        icon="session",
        manages=True,
        words=("sessions",),
    ),
)
"""All pages, in menu order; pages of a group follow each other."""

WITHIN = {
    "server": "servers",
    "tool": "tools",
    "project": "projects",
    "token": "tokens",
    "why": "permissions",
    "thread": "chat",
    "pack": "packs",
    "prompt": "prompts",
    "connection": "connections",
    "setting": "settings",
    "connect": "",
}
"""Menu page to which each other page belongs."""


def menu_of(request: PageRequest) -> list[MenuPage]:
    """Return the pages that the caller can open."""
    if not request.is_known:
        return []
    manages, has_chat = request.manages, request.app.chat is not None
    return [
        page for page in MENU if (manages or not page.manages) and (has_chat or page.path != "chat")
    ]


async def waiting_badges(request: PageRequest) -> Mapping[str, tuple[Badge, ...]]:
    """Return the counts in the menu, by page; without approvals if the store is slow."""
    badges: dict[str, tuple[Badge, ...]] = {}
    if request.manages:
        servers = request.server_statuses()
        states = Counter(server.state for server in servers)
        quarantined = sum(1 for server in servers if server.held)
        badges["servers"] = tuple(
            badge
            for badge in (
                Badge(count=quarantined, words="with quarantined tools", query={"state": "held"}),
                Badge(count=states["down"], words="down", query={"state": "down"}, is_bad=True),
            )
            if badge.count
        )
    # An empty context: the page's deadline does not apply. A slow store does not delay the page.
    counting = asyncio.create_task(_waiting_approvals(request), context=Context())
    done, _ = await asyncio.wait({counting}, timeout=_BADGE_WAIT_S)
    if not done:
        counting.cancel()
    elif count := counting.result():
        badges["approvals"] = (Badge(count=count, words="waiting", is_bad=True),)
    return badges


async def _waiting_approvals(request: PageRequest) -> int:
    """Return how many waiting calls the caller may see; 0 if the store is unavailable."""
    try:
        return await request.count_waiting_approvals()
    except ToolgateError as error:
        log.warning("approvals cannot be counted", extra={"error": error.full_text})
        return 0
