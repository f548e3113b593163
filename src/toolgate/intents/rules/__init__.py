"""Rules of intents: texts with variables, and the enriched prompt that is made of them."""

from toolgate.intents.rules.base import PASS_THROUGH, STANDARD, PackRules, VariableSource
from toolgate.intents.rules.conversations import Talk, Talks
from toolgate.intents.rules.enriched_prompt import (
    CLOSING,
    GivenRules,
    context_block,
    enriched,
    known_text,
    quoted,
    within,
)
from toolgate.intents.rules.instructions import CALL_FIRST, INSTRUCTIONS
from toolgate.intents.rules.recent_files import recent_files
from toolgate.intents.rules.rulebook import Rule, Rulebook
from toolgate.intents.rules.template import Template
from toolgate.intents.rules.workspace import Workspace

__all__ = [
    "CALL_FIRST",
    "CLOSING",
    "INSTRUCTIONS",
    "PASS_THROUGH",
    "STANDARD",
    "GivenRules",
    "PackRules",
    "Rule",
    "Rulebook",
    "Talk",
    "Talks",
    "Template",
    "VariableSource",
    "Workspace",
    "context_block",
    "enriched",
    "known_text",
    "quoted",
    "recent_files",
    "within",
]
