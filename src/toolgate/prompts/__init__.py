"""Prompts: the built-in texts, and their replacements per project."""

from toolgate.prompts.base import PREFIX, Prompt, Render
from toolgate.prompts.prompts import Prompts, check, fields_in, fill

__all__ = ["PREFIX", "Prompt", "Prompts", "Render", "check", "fields_in", "fill"]
