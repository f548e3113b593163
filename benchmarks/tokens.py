"""How many tokens the answers of `tool_discovery` cost, over 216 requests of people.

    python -m benchmarks.tokens [--json]

Requests and tools are those of `data/mcpverse`; `benchmarks.discovery_tokens` measures any others.
"""

from functools import partial
from pathlib import Path
from typing import Any

import anyio

from benchmarks import discovery_tokens
from benchmarks._report import Report, Target, main

DATA = Path(__file__).parent / "data" / "mcpverse"
SHOWN = {
    "text": "the answer",
    "structured": "the same, structured",
    "full_definitions": "full definitions of the same tools",
}


def measure(quick: bool) -> Report:  # noqa: ARG001, FBT001 - the one option of every benchmark
    """Ask everything once; gives the table."""
    figures, _ = anyio.run(partial(discovery_tokens.measure, DATA))
    rows: list[dict[str, Any]] = [
        {"estimated tokens of": shown, **figures[name]} for name, shown in SHOWN.items()
    ]
    return Report(
        name="tokens",
        title=f"{figures['requests']} requests over {figures['tools']} tools",
        rows=rows,
        targets=(
            Target(what="tokens, median", measured=figures["text"]["median"], limit=700),
            Target(what="tokens, most", measured=figures["text"]["max"], limit=1000),
        ),
        notes=(f"The budget of an answer is {figures['budget_tokens']} tokens.",),
    )


if __name__ == "__main__":
    main("tokens", measure)
