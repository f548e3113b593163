"""How names of servers look in exposed names, which of them clients cannot tell apart, projects."""

import re

__all__ = ["UNASSIGNED", "fold", "is_project_name", "server_prefix"]

UNASSIGNED = "UNASSIGNED"
"""How some clients say that they mean no project."""

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_project_name(name: str) -> bool:
    """Whether a project can be called so; `default` and `UNASSIGNED` stand for none."""
    return _PROJECT.fullmatch(name) is not None and name not in {"default", UNASSIGNED}


def server_prefix(server: str) -> str:
    """What stands for a server in exposed names: its name, with `-` for `_` and `.`.

    Without `_` in it, the first `_` of a folded name always ends the server.
    """
    return server.replace("_", "-").replace(".", "-")


def fold(name: str) -> str:
    """A name as the most forgetful client sees it; exposed names differ even so."""
    return re.sub(r"_+", "_", name.lower()).replace("-", "_")
