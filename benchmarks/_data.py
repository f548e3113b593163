"""The data sets that come with the benchmarks."""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
"""Folder of the data sets; its README names their sources."""

REAL_TOOLS = DATA / "real_tools.jsonl"
"""Tool definitions of 37 published servers."""

PHRASES = DATA / "phrases.jsonl"
TRANSLATED_PHRASES = DATA / "phrases_translated.jsonl"
"""Short requests, each with the tools that serve it."""

SERVED_OR_NOT = DATA / "served_or_not.jsonl"
"""Everyday requests, half of which no tool serves, and which of these tools serve the others."""

OWN_NAMES = DATA / "own_names.jsonl"
"""Requests with users' own names for things, each with the tools that serve it."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
