"""The page behind the command palette: searches pages, actions, servers and tools by name."""

from dataclasses import dataclass

from starlette.responses import Response

from toolgate.base.names import natural_order
from toolgate.console.navigation import menu_of
from toolgate.console.request import PageRequest
from toolgate.console.route import Route
from toolgate.console.rule_preview import matches_of, options_of, typed_patterns

_MOST = 8
"""Results of each kind (chosen: all kinds fit into the palette)."""

_ACTIONS = (
    ("Add a server", "servers/add", "add", True),
    ("Import servers from clients", "servers/add?found=1", "add", True),
    ("Create a token", "tokens#new", "token", True),
    ("Create a project", "projects#new", "project", True),
    ("Add a permission rule", "permissions#new", "permission", True),
    ("Add a guard", "guards#new", "guard", True),
    ("Explain access", "why", "permission", True),
    ("Verify the audit log", "audit/verify", "audit", True),
)
"""Actions available from anywhere: label, URL, icon, whether only administrators can use them."""


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A result of the palette."""

    name: str
    """Its label."""

    link: str
    """Its URL."""

    icon: str
    """Name of its icon."""

    kind: str
    """Its kind, in one word."""

    is_code: bool = False
    """Whether the label is the name of a server or a tool."""


async def _show(request: PageRequest) -> Response:
    text = request.query_value("q").strip()[:200]
    return request.page("go.html", text=text, destinations=_destinations(request, text.lower()))


def _destinations(request: PageRequest, text: str) -> list[Destination]:
    words = text.split()
    places = [
        Destination(name=page.name, link=request.url(page.path), icon=page.icon, kind="Page")
        for page in menu_of(request)
        if _fits(" ".join((page.name, *page.words)), words)
    ]
    actions = [
        Destination(name=name, link=request.base + "/" + link, icon=icon, kind="Action")
        for name, link, icon, manages in _ACTIONS
        if (request.manages or not manages) and _fits(name, words)
    ]
    if not words:
        return places + actions
    servers = [
        Destination(
            name=name, link=request.url("server", name=name), icon="server", kind="Server",
            is_code=True,
        )
        for name in request.gateway.servers.names(request.caller)
        if _fits(name, words)
    ]  # fmt: skip
    tools = [
        Destination(
            name=tool.key, link=request.url("tool", key=tool.key), icon="tool", kind="Tool",
            is_code=True,
        )
        for tool in request.gateway.visible.tools(request.caller)
        if _fits(tool.key, words)
    ]  # fmt: skip
    servers.sort(
        key=lambda server: (
            not server.name.lower().startswith(words[0]),
            natural_order(server.name),
        )
    )
    search = Destination(
        name=f"Search for tools: “{text}”",
        link=request.url("tools", q=text),
        icon="search",
        kind="Search",
    )
    return [*places[:_MOST], *actions[:_MOST], *servers[:_MOST], *tools[:_MOST], search]


def _fits(name: str, words: list[str]) -> bool:
    lower = name.lower()
    return all(word in lower for word in words)


async def _navigation(request: PageRequest) -> Response:
    """Render only the menu, for pages whose counts have changed."""
    return request.page("navigation.html")


async def _options(request: PageRequest) -> Response:
    """Return servers and tools for a picker."""
    tools_only = request.query_value("only") == "tools"
    options = options_of(request, request.query_value("pick"), tools_only=tools_only)
    return request.page("pattern_options.html", options=options)


async def _preview(request: PageRequest) -> Response:
    """Show what the patterns of a rule match while it is edited."""
    request.gateway.visible.must_manage(request.caller)
    patterns = typed_patterns(request)
    return request.page(
        "rule_preview.html", matches=matches_of(request, patterns, hint=request.query_value("hint"))
    )


ROUTES = (
    Route(path="go", show=_show),
    Route(path="navigation", show=_navigation),
    Route(path="options", show=_options),
    Route(path="options/preview", show=_preview),
)
