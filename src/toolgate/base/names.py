"""Rules for names: exposed names of servers, project names, renamed settings, and sort order."""

import re
from collections.abc import Collection

NO_PROJECT = frozenset({"default", "UNASSIGNED", "__unassigned__"})
"""Values with which clients say that they use no project."""

_CURRENT_KEYS = {
    "approval": "approver",
    "cached_s": "cache_ttl_s",
    "expose": "tool_names",
    "local_open": "allow_other_users",
    "name_limit": "max_name_chars",
    "optimization_share": "experiment_percent",
    "rest_s": "cooldown_s",
    "wait_s": "embedding_wait_s",
}
"""Former names of settings and their current names, used only for the hint of an error: former
names are not accepted."""

_DIGITS = re.compile(r"[0-9]+")
_ORDER_DIGITS = 20
"""Digits up to which numbers are ordered by value (chosen: more than any counter has)."""

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_project_name(name: str) -> bool:
    """Whether a text is a valid project name; the values of `NO_PROJECT` are not."""
    return _PROJECT.fullmatch(name) is not None and name not in NO_PROJECT


def current_key(former: str, allowed: Collection[str]) -> str:
    """The current name of a renamed setting; empty if there is none."""
    name = _CURRENT_KEYS.get(former, "")
    return name if name in allowed else ""


def server_prefix(server: str) -> str:
    """The prefix of a server in exposed names: its name, with `-` instead of `_` and `.`.

    Without `_` in the prefix, the first `_` of a folded name always ends it.
    """
    return server.replace("_", "-").replace(".", "-")


def fold(name: str) -> str:
    """Fold case and separators, as some clients do. Exposed names stay unique even then."""
    return re.sub(r"_+", "_", name.lower()).replace("-", "_")


def natural_order(name: str) -> str:
    """Sort key of a name in lists for people: `s2` comes before `s10`, and case does not count."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(_ORDER_DIGITS), name.lower())
