"""How names of servers look in exposed names, and which of them clients cannot tell apart."""

import re

__all__ = ["fold", "server_prefix"]


def server_prefix(server: str) -> str:
    """What stands for a server in exposed names: its name, with `-` for `_` and `.`.

    Without `_` in it, the first `_` of a folded name always ends the server.
    """
    return server.replace("_", "-").replace(".", "-")


def fold(name: str) -> str:
    """A name as the most forgetful client sees it; exposed names differ even so."""
    return re.sub(r"_+", "_", name.lower()).replace("-", "_")
