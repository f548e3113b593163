"""The data sets that the benchmarks bring along."""

import json
from pathlib import Path
from typing import Any

__all__ = ["DATA", "OWN_NAMES", "PHRASES", "REAL_TOOLS", "read_rows"]

DATA = Path(__file__).parent / "data"
"""Folder of the data sets; its README says where each is from."""

REAL_TOOLS = DATA / "real_tools.jsonl"
"""Definitions of the tools of 37 published servers."""

PHRASES = DATA / "phrases.jsonl"
"""Short requests, and which of these tools serve them."""

OWN_NAMES = DATA / "own_names.jsonl"
"""Requests that contain people's own names for things, and which of these tools serve them."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one JSON object per line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
