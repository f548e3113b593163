"""The intent service: detection, enriched prompts, search boosts and advice about calls.

Independent of servers, access and audit: the gateway passes in the tools a caller may use.
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
