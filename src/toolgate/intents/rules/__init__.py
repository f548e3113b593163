"""Rules of intents: templates with variables, and the enriched prompt."""

from toolgate.intents.rules.base import PASS_THROUGH, STANDARD, PackRules, VariableSource
from toolgate.intents.rules.conversations import ConversationContext, ConversationState
from toolgate.intents.rules.enriched_prompt import (
    CLOSING,
    RenderedRules,
    build_enriched_prompt,
    context_block,
    fit_budget,
    knowledge_text,
    quote_queries,
)
from toolgate.intents.rules.instructions import CALL_FIRST, INSTRUCTIONS
from toolgate.intents.rules.recent_files import recent_files
from toolgate.intents.rules.rulebook import IntentRule, Rulebook
from toolgate.intents.rules.template import Template
from toolgate.intents.rules.workspace import WorkspaceVariables

__all__ = [
    "CALL_FIRST",
    "CLOSING",
    "INSTRUCTIONS",
    "PASS_THROUGH",
    "STANDARD",
    "ConversationContext",
    "ConversationState",
    "IntentRule",
    "PackRules",
    "RenderedRules",
    "Rulebook",
    "Template",
    "VariableSource",
    "WorkspaceVariables",
    "build_enriched_prompt",
    "context_block",
    "fit_budget",
    "knowledge_text",
    "quote_queries",
    "recent_files",
]
