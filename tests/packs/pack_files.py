"""Write the files of packs for tests."""

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path

_moments = count(1)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder; each has a time of its own, as files of people have."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        moment = 1_700_000_000 + next(_moments)
        os.utime(path, (moment, moment))
    return folder


SALES: Mapping[str, str] = {
    "pack.toml": (
        'name = "sales"\nversion = "2"\ndescription = "Orders and refunds."\n'
        'out_of_context = "I only know about sales."\n[variables]\nCOMPANY = "Acme"\n'
    ),
    "intents/refunds.txt": "# money\nmoney back\n\n  give me a refund  \n",
    "intents/orders.toml": 'tool = "order"\n[keywords.en]\nexact = ["my order"]\n',
    "rules/refunds.md": "# Refunds for {{PROJECT_NAME}}\n",
    "tools/orders.py": (
        "from toolgate import tool\n\n\n@tool\ndef order(number: int) -> str:\n"
        '    """Show an order."""\n    return f"order {number}"\n'
    ),
}
"""A small pack that has something of everything."""
