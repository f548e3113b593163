"""Prompts: the texts that ship, as files, and what projects put in their place."""

from toolgate.prompts._prompts import Prompts, fill
from toolgate.prompts.base import PREFIX, Prompt, PromptStore, PromptVersion, Render

__all__ = ["PREFIX", "Prompt", "PromptStore", "PromptVersion", "Prompts", "Render", "fill"]
