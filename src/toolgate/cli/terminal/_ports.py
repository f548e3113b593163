"""Who has a port of this machine."""

import ipaddress
import socket
import sys
from urllib.parse import urlsplit

from toolgate import settings
from toolgate.base import run_file
from toolgate.base.run_file import RunFile

__all__ = ["can_listen", "gateway_on", "is_loopback", "reachable"]

_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def can_listen(host: str, port: int) -> bool:
    """Whether a port is free; 0 always is."""
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
    """The gateway of this user that announces to listen there."""
    for run in run_file.read_all(settings.run_dir()):
        place = urlsplit(run.address)
        if place.port == port and run.is_alive() and _overlap(place.hostname or "", host):
            return run
    return None


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach what listens there."""
    bare = host.strip("[]").lower()
    try:
        return bare == "localhost" or ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def reachable(address: str) -> str:
    """The address that programs of this machine connect to: all interfaces are no address."""
    place = urlsplit(address)
    if place.hostname not in _EVERYWHERE:
        return address
    host = "[::1]" if ":" in (place.hostname or "") else "127.0.0.1"
    return f"{place.scheme}://{host}:{place.port}"


def _overlap(one: str, other: str) -> bool:
    one, other = one.strip("[]").lower(), other.strip("[]").lower()
    return one == other or bool({one, other} & _EVERYWHERE) or {one, other} <= _LOOPBACK
