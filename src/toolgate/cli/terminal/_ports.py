"""Check who uses a port on this machine."""

import ipaddress
import socket
import sys
from urllib.parse import urlsplit

from toolgate import settings
from toolgate.base import run_file
from toolgate.base.run_file import RunFile

__all__ = ["can_listen", "gateway_on", "is_loopback", "local_address"]

_ALL_INTERFACES = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - for comparison only
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def can_listen(host: str, port: int) -> bool:
    """Whether a port is free; port 0 always is."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError:
            return False
    return True


def gateway_on(host: str, port: int) -> RunFile | None:
    """The gateway of this user that listens there, according to its run file."""
    for run in run_file.read_all(settings.run_dir()):
        address = urlsplit(run.address)
        if address.port == port and run.is_alive() and _overlap(address.hostname or "", host):
            return run
    return None


def is_loopback(host: str) -> bool:
    """Whether a host is reachable from this machine only."""
    bare = host.strip("[]").lower()
    try:
        return bare == "localhost" or ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def local_address(address: str) -> str:
    """The address to connect to from this machine, if a gateway listens on all interfaces."""
    parts = urlsplit(address)
    if parts.hostname not in _ALL_INTERFACES:
        return address
    host = "[::1]" if ":" in (parts.hostname or "") else "127.0.0.1"
    return f"{parts.scheme}://{host}:{parts.port}"


def _overlap(host: str, other: str) -> bool:
    host, other = host.strip("[]").lower(), other.strip("[]").lower()
    return host == other or bool({host, other} & _ALL_INTERFACES) or {host, other} <= _LOOPBACK
