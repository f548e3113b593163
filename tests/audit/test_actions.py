"""Every action that the code records has a label, by which people filter."""

import ast
import re
from pathlib import Path

from toolgate.audit.actions import ACTIONS

SOURCES = Path(__file__).parents[2] / "src" / "toolgate"
RECORDING = frozenset(
    {"change", "note", "simple", "around", "refusals", "_note", "_record", "_change", "_write"}
)
RECORDS = re.compile(rf"\b({'|'.join(RECORDING)})\(")


def recorded_actions() -> dict[str, str]:
    """Actions in calls that take a caller and an action, with their module."""
    actions: dict[str, str] = {}
    for module in SOURCES.rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        # Parsing all modules takes two seconds, and few of them record.
        if not RECORDS.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in RECORDING or len(node.args) < 2:
                continue
            caller, action = node.args[:2]
            if "caller" in ast.unparse(caller) and isinstance(action, ast.Constant):
                actions[str(action.value)] = module.relative_to(SOURCES).as_posix()
    return actions


def test_every_recorded_action_has_a_label() -> None:
    recorded = recorded_actions()
    assert len(recorded) > 30
    assert {name: module for name, module in recorded.items() if name not in ACTIONS} == {}
