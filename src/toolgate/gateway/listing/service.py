"""What clients see when they list: tools, prompts, resources, and the instructions."""

from dataclasses import dataclass

from toolgate.base import json_text
from toolgate.catalog import (
    Menu,
)
from toolgate.gateway.listing.policy import ListingPolicy
from toolgate.gateway.meta_tools import (
    DEFINITIONS,
    READ_TOOL,
)
from toolgate.gateway.parts import GatewayContext
from toolgate.gateway.prompts import PromptService
from toolgate.intents.rules import CALL_FIRST
from toolgate.intents.service import IntentService
from toolgate.types import (
    Caller,
    Json,
    json_object,
)

_MAX_INSTRUCTIONS = 4000
"""Largest number of characters in the instructions (chosen)."""


@dataclass(frozen=True, kw_only=True)
class ToolView:
    """A tool as user interfaces show it."""

    key: str
    """`server:tool`, with the name that clients see."""

    own_key: str
    """The key with the tool's name on its server, which rights refer to."""

    exposed: str
    """The name in `tools/list`."""

    server: str
    """The server."""

    definition: Json
    """The definition, as clients see it."""

    down: bool
    """Whether the server does not answer now."""


class ListingService:
    """Answers `tools/list`, `prompts/list`, `resources/list` and related requests."""

    def __init__(
        self,
        context: GatewayContext,
        *,
        policy: ListingPolicy,
        menu: Menu,
        prompts: PromptService,
        intent_service: IntentService,
    ) -> None:
        self._settings = context.settings
        self._catalog = context.catalog
        self._access = context.access
        self._visible = context.visible
        self.policy = policy
        """Chooses between the real tools and the meta-tools."""
        self._menu = menu
        self._prompts = prompts
        self._guide = intent_service
        self._receipts = context.receipts

    @property
    def total_tokens(self) -> int:
        """Estimated tokens of all tool definitions."""
        return self._catalog.snapshot.menu_tokens

    def pinned(self, caller: Caller) -> tuple[str, ...]:
        """Keys of the tools that are pinned for a caller, sorted; some may not exist."""
        return tuple(sorted(self.policy.pinned(self.policy.project_of(caller))))

    def instructions(self, caller: Caller) -> str:
        """The gateway's usage instructions, for `initialize` and `server/discover`."""
        servers = self._visible.servers(caller, self._catalog.snapshot)
        texts = {n: e.instructions.strip() for n, e in servers.items() if e.instructions}
        if self._settings.current.tool_names == "flat":
            return next(iter(texts.values()), "")
        count = len(servers)
        lines = [f"Toolgate: one endpoint for {count} MCP server{'' if count == 1 else 's'}."]
        if "processPrompt" in self._settings.current.meta_tools and self._guide.has_rules:
            lines.append(CALL_FIRST)
        if not self.policy.lists_all(caller):
            # While search is being tested, some of the conversations get the real tools.
            where = "Where tool_discovery is listed: find" if self.policy.is_mixed() else "Find"
            is_split = READ_TOOL in self.policy.meta_tools(caller)
            read = ", or tool_read if they are read-only" if is_split else ""
            lines.append(
                f"{where} tools with tool_discovery (one short capability phrase per step), run "
                f"them with tool_execute{read}. Servers: " + ", ".join(servers) + "."
            )
            if self._settings.current.groups:
                lines.append(
                    f"Groups (argument `group`): {', '.join(self._settings.current.groups)}."
                )
        else:
            lines.append("Tools are named server__tool.")
            if self.policy.shape(caller) == "short":
                # The client's model decides by these names whether it looks for a tool here.
                lines.append(f"Servers: {', '.join(servers)}.")
            lines += [f"{name}: {text}" for name, text in texts.items()]
        return "\n".join(lines)[:_MAX_INSTRUCTIONS]

    async def list_tools(self, caller: Caller) -> bytes:
        """The JSON array for `tools/list`: depending on the mode, real tools or meta-tools."""
        self._receipts.tools_listed(caller)
        return self.listing(caller)

    def listing(self, caller: Caller) -> bytes:
        """What `list_tools` returns, without an audit record: for measuring its size."""
        mask = self._access.mask(caller, self._catalog.snapshot)
        allowed = None if mask is None else mask.tobytes()
        meta = self.policy.meta_tools(caller)
        return self._menu.listing(self.policy.rules(caller), allowed, meta)

    async def list_prompts(self, caller: Caller) -> bytes:
        """The JSON array for `prompts/list`; the same in every mode."""
        listed = self._visible.json_array(caller, "prompt", self._catalog.snapshot.prompts.values())
        if not self._settings.current.models or self._settings.current.tool_names == "flat":
            return listed
        own_prompts = await self._prompts.definitions(caller)
        own = [json_text.dumps(prompt) for prompt in own_prompts]
        return b"[" + b",".join([*own, *filter(None, [listed[1:-1]])]) + b"]"

    async def list_resources(self, caller: Caller) -> bytes:
        """The JSON array for `resources/list`; the same in every mode."""
        return self._visible.json_array(caller, "read", self._catalog.snapshot.resources.values())

    async def list_templates(self, caller: Caller) -> bytes:
        """The JSON array for `resources/templates/list`; the same in every mode."""
        return self._visible.json_array(caller, "read", self._catalog.snapshot.templates.values())

    def tool_views(self, caller: Caller) -> list[ToolView]:
        """All tools that the caller may use, listed or not."""
        down = self._catalog.down()
        return [
            ToolView(
                key=tool.shown_key,
                own_key=tool.key,
                exposed=tool.exposed,
                server=tool.server,
                definition=tool.definition,
                down=tool.server in down,
            )
            for tool in self._catalog.snapshot.tools
            if self._access.decide(caller, "list", tool.key).allowed
        ]

    def input_schema(self, caller: Caller, name: str) -> Json | None:
        """Input schema of a meta-tool, or of a tool by exposed name; None if it does not exist."""
        entry = self._visible.by_exposed_name(caller, name)
        if entry is not None:
            return json_object(entry.definition.get("inputSchema"))
        if self._settings.current.tool_names != "flat" and name in DEFINITIONS:
            return json_object(DEFINITIONS[name]["inputSchema"])
        return None
