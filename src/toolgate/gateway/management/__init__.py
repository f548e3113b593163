"""Management of servers, quarantine, vectors and learning data, and explanations of visibility."""

from toolgate.gateway.listing.policy import ListingPolicy
from toolgate.gateway.management.example_prompts import ExamplePromptManagement
from toolgate.gateway.management.explanation import VisibilityExplanation
from toolgate.gateway.management.quarantine import QuarantineManagement
from toolgate.gateway.management.servers import ServerManagement
from toolgate.gateway.management.settings import SettingsManagement
from toolgate.gateway.management.tool_overrides import (
    HIDDEN_VALUE,
    OverriddenTool,
    ToolOverrideManagement,
)
from toolgate.gateway.management.usage_learning import LearningService
from toolgate.gateway.management.vector_index import VectorIndexManagement
from toolgate.gateway.parts import AccessControl, GatewayContext, SearchParts, ServerParts
from toolgate.security.guards import CallGuards

__all__ = [
    "HIDDEN_VALUE",
    "CallGuards",
    "ExamplePromptManagement",
    "LearningService",
    "Management",
    "OverriddenTool",
    "QuarantineManagement",
    "SearchParts",
    "ServerManagement",
    "SettingsManagement",
    "ToolOverrideManagement",
    "VectorIndexManagement",
    "VisibilityExplanation",
]


class Management:
    """Operations that need the right `manage`, by subject."""

    def __init__(
        self,
        context: GatewayContext,
        *,
        servers: ServerParts,
        access: AccessControl,
        listing: ListingPolicy,
    ) -> None:
        self.servers = ServerManagement(context, servers=servers, admin=access.admin)
        """Adds, changes and removes servers."""
        self.overrides = ToolOverrideManagement(context, servers)
        """Shows and changes how tools are offered."""
        self.quarantine = QuarantineManagement(context, servers.quarantine)
        """Lists and decides quarantined definitions."""
        self.vectors = VectorIndexManagement(context)
        """Shows and maintains the tools' vectors."""
        self.settings = SettingsManagement(context)
        """Shows and changes settings of the configuration file."""
        self.prompts = ExamplePromptManagement(context)
        """Adds example prompts to packs."""
        self.visibility = VisibilityExplanation(
            context, quarantine=servers.quarantine, access=access, listing=listing
        )
        """Explains why a caller sees a tool, or does not."""
