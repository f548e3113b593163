"""What a message is about, and what a model is told for it: intent, rules and tools put together.

Knows no servers, no access and no audit: the gateway passes in which tools a caller may use.
"""

from toolgate.intents.service.answers import Advice, Enrichment, Knowledge
from toolgate.intents.service.service import IntentService
from toolgate.intents.service.tools import IntentBoost, Toolbox, ToolNames

__all__ = [
    "Advice",
    "Enrichment",
    "IntentBoost",
    "IntentService",
    "Knowledge",
    "ToolNames",
    "Toolbox",
]
