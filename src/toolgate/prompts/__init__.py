"""Prompts: the texts that ship, as files, and what projects put in their place."""

from toolgate.prompts.base import PREFIX, Prompt, Render
from toolgate.prompts.prompts import Prompts, check, fields_in, fill

__all__ = ["PREFIX", "Prompt", "Prompts", "Render", "check", "fields_in", "fill"]
