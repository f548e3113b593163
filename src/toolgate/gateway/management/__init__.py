"""Management of servers, quarantine, vectors and learning data, and explanations of visibility."""

from dataclasses import dataclass

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

__all__ = [
    "HIDDEN_VALUE",
    "LearningService",
    "Management",
    "OverriddenTool",
    "QuarantineManagement",
    "ServerManagement",
    "SettingsManagement",
    "ToolOverrideManagement",
    "VectorIndexManagement",
    "VisibilityExplanation",
]


@dataclass(frozen=True, kw_only=True)
class Management:
    """Operations that need the right `manage`, by subject."""

    servers: ServerManagement
    """Adds, changes and removes servers."""

    overrides: ToolOverrideManagement
    """Shows and changes how tools are offered."""

    quarantine: QuarantineManagement
    """Lists and decides quarantined definitions."""

    vectors: VectorIndexManagement
    """Shows and maintains the tools' vectors."""

    settings: SettingsManagement
    """Shows and changes settings of the configuration file."""

    visibility: VisibilityExplanation
    """Explains why a caller sees a tool, or does not."""
