"""Measures how often the scanner holds back real tools, and how many poisoned ones it detects.

    python -m benchmarks.scanner [--quick] [--json]

Real tools: `data/real_tools.jsonl`. Poisoned ones: `data/poisoned_tools.jsonl`, a JSON object per
line with `server`, `kind` and the definition. No rule was ever changed for the tools in
`data/poisoned_unseen.jsonl`: they show how much of an attack in new words is detected, and have no
target; once its misses have been examined, such a set moves to the first file and another replaces
it. The classifier is trained on the first two sets; `python -m training.steering --cross-validate
servers` tells what it does without them. It has never seen the half of `data/steering_texts.jsonl`
that is `held-out`. `data/fresh_definitions.jsonl` and its siblings are by writers who had seen
nothing of the project; nobody has looked at which of them are judged wrongly.
"""

import time
from collections import defaultdict
from typing import Any

from benchmarks._data import DATA, REAL_TOOLS, read_rows
from benchmarks._report import Report, Target, main
from toolgate.catalog.scanner import OtherServersTools, Scanner, is_suspicious

MOST_FALSE_ALARMS = 0.005
LEAST_RECALL = 0.95
FRESH = tuple(f"fresh_definitions{writer}.jsonl" for writer in ("", "_b", "_c", "_d"))


def measure(quick: bool) -> Report:
    """Scan both sets and return the table."""
    real, poisoned = read_rows(REAL_TOOLS), read_rows(DATA / "poisoned_tools.jsonl")
    if quick:
        real = real[:60]
    neighbours = OtherServersTools.of((tool["server"], tool["name"]) for tool in real)
    scanner = Scanner()
    began = time.process_time()
    held = [tool for tool in real if is_held(scanner, tool, neighbours)]
    each_ms = 1000 * (time.process_time() - began) / len(real)
    found: dict[str, list[bool]] = defaultdict(list)
    for tool in poisoned:
        found[tool["kind"]].append(is_held(scanner, tool, neighbours))
    caught = sum(map(sum, found.values()))
    unseen = read_rows(DATA / "poisoned_unseen.jsonl")
    new = sum(is_held(scanner, tool, neighbours) for tool in unseen)
    texts = [row for row in read_rows(DATA / "steering_texts.jsonl") if row["split"] == "held-out"]
    steering = {
        label: [_is_held_text(scanner, row) for row in texts if row["label"] == label]
        for label in ("poisoned", "benign")
    }
    fresh = [_fresh_note(scanner, name) for name in FRESH]
    rows: list[dict[str, Any]] = [
        {"kind": kind, "tools": len(each), "found": sum(each)}
        for kind, each in sorted(found.items())
    ]
    return Report(
        name="scanner",
        title=f"{len(real)} real tools, {len(poisoned)} poisoned ones",
        rows=rows,
        targets=[
            Target(
                what="share of real tools held back",
                measured=round(len(held) / len(real), 4),
                limit=MOST_FALSE_ALARMS,
            ),
            Target(
                what="share of poisoned tools held back",
                measured=round(caught / len(poisoned), 4),
                limit=LEAST_RECALL,
                at_least=True,
            ),
        ],
        notes=[
            *fresh,
            f"{each_ms:.1f} CPU ms a real tool; held back: {names(held)}.",
            f"Of {len(unseen)} poisoned ones that no rule was changed for: {new}.",
            f"Of {len(steering['poisoned'])} poisoned texts held out from training:"
            f" {sum(steering['poisoned'])}; of {len(steering['benign'])} honest ones that look like"
            f" them: {sum(steering['benign'])}.",
        ],
    )


def _fresh_note(scanner: Scanner, name: str) -> str:
    """Say how many definitions of a file of another writer would be held back."""
    held: dict[str, list[bool]] = {"poisoned": [], "honest": []}
    for row in read_rows(DATA / name):
        held[row["label"]].append(
            is_suspicious(scanner.scan(definition_of(row), server=row["server"]))
        )
    poisoned, honest = held["poisoned"], held["honest"]
    return (
        f"{name}: of {len(poisoned)} poisoned definitions in fresh words {sum(poisoned)};"
        f" of {len(honest)} honest ones, half of which look like them, {sum(honest)}."
    )


def is_held(scanner: Scanner, tool: dict[str, Any], neighbours: OtherServersTools) -> bool:
    """Whether a tool would be held back among the real ones."""
    definition = {name: value for name, value in tool.items() if name not in ("server", "kind")}
    return is_suspicious(scanner.scan(definition, server=tool["server"], neighbours=neighbours))


def _is_held_text(scanner: Scanner, row: dict[str, Any]) -> bool:
    """Whether a text would be held back as the description of a tool."""
    return is_suspicious(scanner.scan(definition_of(row), server="server"))


def definition_of(row: dict[str, Any]) -> dict[str, Any]:
    """The definition of a tool with a row's name, description and the parameters it has."""
    definition: dict[str, Any] = {
        "name": row.get("name", "tool"),
        "description": row["description"],
    }
    if "parameters" in row:
        properties = {
            name: {"type": "string", "description": text}
            for name, text in row["parameters"].items()
        }
        definition["inputSchema"] = {"type": "object", "properties": properties}
    return definition


def names(tools: list[dict[str, Any]]) -> str:
    """Tool names to print."""
    return ", ".join(f"{tool['server']}:{tool['name']}" for tool in tools) or "none"


if __name__ == "__main__":
    main("scanner", measure)
