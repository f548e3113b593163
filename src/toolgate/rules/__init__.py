"""Rules of intents: texts with variables, and the enriched prompt that is made of them."""

from toolgate.rules._enriched import (
    CLOSING,
    GivenRules,
    context_block,
    enriched,
    known_text,
    quoted,
    within,
)
from toolgate.rules._instructions import CALL_FIRST, INSTRUCTIONS
from toolgate.rules._recent import recent_files
from toolgate.rules._rulebook import Rule, Rulebook
from toolgate.rules._talks import Talk, Talks
from toolgate.rules._template import Template
from toolgate.rules._workspace import Workspace
from toolgate.rules.base import PASS_THROUGH, STANDARD, PackRules, VariableSource

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
