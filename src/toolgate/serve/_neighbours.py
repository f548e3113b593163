"""Whether others use this machine too, and whether one of them has opened a connection."""

import os
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

__all__ = ["has_neighbours", "is_same_user"]

_PEOPLE = range(500 if sys.platform == "darwin" else 1000, 60_000)
"""Numbers of users that are people, by the customs of the platforms."""

_NO_SHELLS = ("nologin", "false", "sync", "halt", "shutdown")
_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}


def has_neighbours(people: Iterable[tuple[int, str]] | None = None) -> bool:
    """Whether the machine has more human users than one.

    Args:
        people: Number and shell of each user; None: those of this machine.
    """
    known = _people() if people is None else people
    humans = {
        number for number, shell in known if number in _PEOPLE and not shell.endswith(_NO_SHELLS)
    }
    return len(humans | ({os.getuid()} & set(_PEOPLE) if sys.platform != "win32" else set())) > 1


def _people() -> list[tuple[int, str]]:
    if sys.platform == "win32":
        return []
    import pwd  # noqa: PLC0415 -- not on every platform

    return [(one.pw_uid, one.pw_shell) for one in pwd.getpwall()]


def is_same_user(client: tuple[str, int], server: tuple[str, int]) -> bool | None:
    """Whether a connection on this machine was opened by the user that runs this process, or root.

    Reads the kernel's table of connections, so it takes a moment.

    Args:
        client: Address and port of who connected.
        server: Address and port here.

    Returns:
        None where the system does not tell.
    """
    with suppress(OSError, ValueError, struct.error):
        one, other = ip_address(client[0]), ip_address(server[0])
        wanted = f"{_as_table(one, client[1])} {_as_table(other, server[1])}"
        for line in _TABLES[one.version].read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if f"{fields[1]} {fields[2]}" == wanted:
                return int(fields[7]) in {os.getuid(), 0}
    return None


def _as_table(address: IPv4Address | IPv6Address, port: int) -> str:
    """Address and port as the kernel writes them: words of 32 bits in the order of the machine."""
    packed = socket.inet_pton(
        socket.AF_INET if address.version == 4 else socket.AF_INET6, str(address)
    )
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
