"""Rules for names: of servers in exposed names, of projects, and of renamed settings."""

import re
from collections.abc import Collection

__all__ = ["NO_PROJECT", "current_key", "fold", "is_project_name", "server_prefix"]

NO_PROJECT = frozenset({"default", "UNASSIGNED", "__unassigned__"})
"""How clients say that they mean no project."""

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
"""Settings by a former name. Only the hint of an error uses them: no former name is read."""

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_project_name(name: str) -> bool:
    """Whether a project can be called so; the words of `NO_PROJECT` stand for none."""
    return _PROJECT.fullmatch(name) is not None and name not in NO_PROJECT


def current_key(former: str, allowed: Collection[str]) -> str:
    """The name that a setting has now, by its former name; empty: it never had that name."""
    name = _CURRENT_KEYS.get(former, "")
    return name if name in allowed else ""


def server_prefix(server: str) -> str:
    """What stands for a server in exposed names: its name, with `-` for `_` and `.`.

    Without `_` in it, the first `_` of a folded name always ends the server.
    """
    return server.replace("_", "-").replace(".", "-")


def fold(name: str) -> str:
    """A name as the most forgetful client sees it; exposed names differ even so."""
    return re.sub(r"_+", "_", name.lower()).replace("-", "_")
