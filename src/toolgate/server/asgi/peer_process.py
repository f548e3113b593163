"""Finds out whether the machine has other users, and which user opened a connection."""

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import anyio

_PEOPLE = range(500 if sys.platform == "darwin" else 1000, 60_000)
"""Ids of human users, by the conventions of the platforms."""

_NO_SHELLS = ("nologin", "false", "sync", "halt", "shutdown")
_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}


def has_other_users(people: Iterable[tuple[int, str]] | None = None) -> bool:
    """Whether the machine has more than one human user.

    Args:
        people: Id and shell of each user; None: those of this machine.
    """
    users = _people() if people is None else people
    humans = {
        number for number, shell in users if number in _PEOPLE and not shell.endswith(_NO_SHELLS)
    }
    if sys.platform != "win32":
        humans |= {os.getuid()} & set(_PEOPLE)
    return len(humans) > 1


def _people() -> list[tuple[int, str]]:
    if sys.platform == "win32":
        return []
    import pwd  # noqa: PLC0415 -- not on every platform

    return [(user.pw_uid, user.pw_shell) for user in pwd.getpwall()]


async def is_same_user(client: tuple[str, int], server: tuple[str, int]) -> bool | None:
    """Whether the user of this process, or root, opened a connection on this machine.

    Asks the kernel for this one connection (some 20 us). Where it does not support that, its
    table of all connections is read in a thread (some 10 ms with a few thousand connections).

    Args:
        client: Address and port of the client.
        server: Address and port of the gateway.

    Returns:
        None where the system does not say, and for a connection that its owner has closed: what
        is left of one has no owner, which the kernel reports as root.
    """
    if sys.platform == "win32":
        return None
    owner: int | None = None
    with suppress(OSError, ValueError, struct.error):
        try:
            owner = _ask(client, server)
        except OSError:
            owner = await anyio.to_thread.run_sync(_look_up, client, server)
    return None if owner is None else owner in {os.getuid(), 0}


def _ask(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the user at the client's end, by a kernel query for one socket.

    https://man7.org/linux/man-pages/man7/sock_diag.7.html

    Raises:
        OSError: The system does not support such queries.
    """
    client_ip, server_ip = ip_address(client[0]), ip_address(server[0])
    ends = _ENDS.pack(client[1], server[1], client_ip.packed, server_ip.packed)
    family = socket.AF_INET if client_ip.version == 4 else socket.AF_INET6
    request = struct.pack("=BBxxI", family, socket.IPPROTO_TCP, 1 << _ESTABLISHED) + ends + _ANY
    head = struct.pack("=IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    if sys.platform != "linux":
        raise OSError(errno.EAFNOSUPPORT, "no netlink here")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1)
        kernel.sendto(head + request, (0, 0))
        reply = kernel.recv(4096)
    if struct.unpack_from("=H", reply, 4)[0] != _SOCK_DIAG_BY_FAMILY:
        number = -struct.unpack_from("=i", reply, 16)[0]
        if number == errno.ENOENT:
            return None
        raise OSError(number, os.strerror(number))
    state = reply[17]
    # For a port without this connection, the kernel returns the listening socket, with other ends.
    if state != _ESTABLISHED or reply[20:24] != ends[:4]:
        return None
    return struct.unpack_from("=I", reply, 16 + _UID_AT)[0]


_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ESTABLISHED = 1
"""TCP_ESTABLISHED in Linux's tcp_states.h."""
_ENDS = struct.Struct("!HH16s16s")
_ANY = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
"""Any interface, any cookie."""
_UID_AT = 4 + 48 + 3 * 4
"""Offset of the user id in `inet_diag_msg`: after state and timers, the socket, and three words."""


def _look_up(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Do the same with the table of connections, for kernels and sandboxes without queries."""
    client_ip, server_ip = ip_address(client[0]), ip_address(server[0])
    row = f"{_as_table(client_ip, client[1])} {_as_table(server_ip, server[1])} {_ESTABLISHED:02X}"
    for line in _TABLES[client_ip.version].read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if " ".join(fields[1:4]) == row:
            return int(fields[7])
    return None


def _as_table(address: IPv4Address | IPv6Address, port: int) -> str:
    """Return address and port as the kernel prints them: 32-bit words in native byte order."""
    words = struct.unpack(f"={len(address.packed) // 4}I", address.packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
