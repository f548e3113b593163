"""Check who uses a port on this machine."""

import socket
import sys
from datetime import datetime
from urllib.parse import urlsplit

from toolgate import settings
from toolgate.base.processes import run_file
from toolgate.base.processes.run_file import RunFile
from toolgate.errors import PortTakenError, SettingError
from toolgate.security.addresses import is_loopback
from toolgate.settings import Settings

_ALL_INTERFACES = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - for comparison only
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

OTHER_GATEWAY = "a Toolgate gateway of another user, or with another data folder"
"""What `is_gateway` found, in messages."""

_PROBE_S = 2.0
"""Seconds for a response of what listens on a port (chosen)."""

_PROBE_BYTES = 4_096
"""Bytes of its response that are read at a time."""

_PROBE_READS = 8
"""How often it is read, since headers and body may arrive separately."""


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
    """Return the gateway of this user that listens there, according to its run file."""
    for run in run_file.read_all(settings.run_dir()):
        address = urlsplit(run.address)
        if address.port == port and run.is_alive() and _overlap(address.hostname or "", host):
            return run
    return None


def is_gateway(host: str, port: int) -> bool:
    """Whether a gateway that has no run file here responds there: of another user, or folder."""
    address = urlsplit(
        local_address(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    )
    request = f"GET /api/v1/- HTTP/1.0\r\nHost: {address.netloc}\r\n\r\n"
    text = b""
    try:
        with socket.create_connection((address.hostname, port), timeout=_PROBE_S) as connection:
            connection.sendall(request.encode())
            for _ in range(_PROBE_READS):
                text += connection.recv(_PROBE_BYTES)
    except OSError:
        return False
    return b"urn:toolgate:" in text


def local_address(address: str) -> str:
    """Return the address to connect to from this machine, even if it is for all interfaces."""
    parts = urlsplit(address)
    if parts.hostname not in _ALL_INTERFACES:
        return address
    host = "[::1]" if ":" in (parts.hostname or "") else "127.0.0.1"
    return f"{parts.scheme}://{host}:{parts.port}"


def refuse_open_access(host: str, loaded: Settings) -> None:
    """Refuse to listen for other machines without authentication.

    Raises:
        SettingError: Other machines could connect without a token.
    """
    if loaded.auth == "local" and not is_loopback(host):
        where = loaded.config_file or "toolgate.toml"
        raise SettingError(
            f"{host} is open to other machines, which could use all tools without a token.",
            allowed='With auth = "local": only addresses of this machine, 127.0.0.1 and ::1.',
            hint=f'To require tokens, write at the top of {where}:\n  auth = "required"\n'
            "and create a token for each client:\n"
            "  toolgate tokens create NAME --role member",
        )


def refuse_port_of_gateway(host: str, port: int) -> None:
    """Refuse a port on which another gateway listens, and name it.

    Raises:
        PortTakenError: A gateway listens there.
    """
    run = gateway_on(host, port)
    if can_listen(host, port):
        return
    if run is None:
        if is_gateway(host, port):
            raise PortTakenError(
                f"Port {port} on {host} is taken by {OTHER_GATEWAY}.",
                hint="Choose another port with --port or serve.port; 0 takes a free one.",
            )
        return
    since = datetime.fromisoformat(run.started_at).astimezone().isoformat(" ", "seconds")
    raise PortTakenError(
        f"Port {port} on {host} is taken by the Toolgate gateway with process id {run.pid},"
        f" running since {since} with the store {run.store}.",
        hint=f"Connect to it at {run.address}/mcp, stop it (kill {run.pid}), or choose"
        " another port with --port.",
    )


def _overlap(host: str, other: str) -> bool:
    host, other = host.strip("[]").lower(), other.strip("[]").lower()
    return host == other or bool({host, other} & _ALL_INTERFACES) or {host, other} <= _LOOPBACK
