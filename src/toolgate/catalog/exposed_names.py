"""Exposed names of tools and prompts: short, and valid in every client.

An exposed name is `server__tool`. Clients differ in what they accept: some cut at 64 characters
and add a prefix of their own, some allow only letters, digits, `_` and `-`, some lower-case
names and fold `__` into `_`. So a name that would break in one of them is changed, and then
always ends in a hash of its own key: it does not depend on which other servers exist.
"""

import hashlib
import re
from base64 import b32encode
from collections import Counter
from collections.abc import Sequence

from toolgate.base.names import fold, server_prefix

# Characters of the hash that keeps shortened names apart: 32 bits (chosen).
_HASH_CHARS = 8
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def exposed_names(
    server: str, names: Sequence[str], *, limit: int, keys: Sequence[str] = ()
) -> list[str]:
    """Return the exposed names of all tools (or prompts) of one server, in order.

    Args:
        server: Name of the server.
        names: Names on that server, without duplicates.
        limit: Largest length of an exposed name, 24 to 64.
        keys: Their keys, if `names` differ from those on the server.
    """
    prefix = server_prefix(server)
    plain = [f"{prefix}__{name}" for name in names]
    seen = Counter(fold(name) for name in plain)
    return [
        whole
        if len(whole) <= limit and _is_safe(name) and seen[fold(whole)] == 1
        else _changed(whole, key, limit)
        for name, whole, key in zip(
            names, plain, keys or [f"{server}:{name}" for name in names], strict=True
        )
    ]


def _is_safe(name: str) -> bool:
    return not (_UNSAFE.search(name) or "__" in name or name.startswith("_") or name.endswith("_"))


def _changed(whole: str, key: str, limit: int) -> str:
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    suffix = b32encode(digest[:5]).decode().lower()
    prefix, _, name = whole.partition("__")
    safe = re.sub(r"_+", "_", _UNSAFE.sub("_", name)).strip("_")
    return f"{f'{prefix}__{safe}'[: limit - _HASH_CHARS - 1].rstrip('_')}_{suffix}"
