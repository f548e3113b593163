"""Behind a reverse proxy, and on a machine with several people."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from toolgate.server.asgi import peer_process
from toolgate.server.asgi.forwarded_headers import ForwardedHeaders
from toolgate.server.asgi.peer_process import has_other_users, is_same_user


def scope(client: str = "10.0.0.5", path: str = "/mcp", **headers: str) -> Any:
    raw = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return {
        "type": "http",
        "path": path,
        "scheme": "http",
        "client": (client, 5),
        "headers": [(b"host", b"inside:7420"), *raw],
    }


def test_what_a_trusted_proxy_says_counts() -> None:
    seen = ForwardedHeaders(["10.0.0.0/8"], "").apply(
        scope(x_forwarded_for="9.9.9.9", x_forwarded_proto="https", x_forwarded_host="gw.example")
    )
    assert (seen["client"][0], seen["scheme"]) == ("9.9.9.9", "https")
    assert [value for name, value in seen["headers"] if name == b"host"] == [b"gw.example"]


def test_what_anybody_else_says_is_only_text() -> None:
    given = scope("11.0.0.1", x_forwarded_for="127.0.0.1", x_forwarded_proto="https")
    assert ForwardedHeaders(["10.0.0.0/8"], "").apply(given)["client"] == ("11.0.0.1", 5)
    assert not ForwardedHeaders([], "").is_configured


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ("1.1.1.1, 9.9.9.9", "9.9.9.9"),  # the first a client can write itself
        ("9.9.9.9, 10.0.0.7", "9.9.9.9"),  # two proxies of ours
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:10.0.0.7, 10.0.0.8", "10.0.0.5"),
        ("unknown", "10.0.0.5"),
        ("", "10.0.0.5"),
        ("9.9.9.9,", "10.0.0.5"),
    ],
)
def test_the_client_is_the_last_that_is_no_proxy_of_ours(text: str, client: str) -> None:
    seen = ForwardedHeaders(["10.0.0.0/8"], "").apply(scope(x_forwarded_for=text))
    assert seen["client"][0] == client


@pytest.mark.parametrize(
    ("path", "inner"),
    [
        ("/tools/mcp", "/mcp"),
        ("/mcp", "/mcp"),
        ("/toolset/mcp", "/toolset/mcp"),
        ("/tools", "/tools"),
    ],
)
def test_the_path_of_the_gateway_is_taken_away_once(path: str, inner: str) -> None:
    seen = ForwardedHeaders([], "/tools").apply(scope(path=path))
    assert (seen["path"], seen["root_path"]) == (inner, "/tools")


# D39: several people on one machine


@pytest.mark.parametrize(
    ("people", "several"),
    [
        ([], False),
        ([(0, "/bin/sh"), (33, "/bin/sh"), (65534, "/usr/sbin/nologin")], False),
        ([(1000, "/bin/bash")], False),
        ([(1000, "/bin/bash"), (1001, "/usr/sbin/nologin")], False),
        ([(1000, "/bin/bash"), (1001, "/bin/zsh")], True),
    ],
)
def test_people_are_told_from_services(people: list[tuple[int, str]], several: bool) -> None:
    own = os.getuid()
    if own in range(1000, 60_000) and not several:
        people = [(number, shell) for number, shell in people if number != 1000]
    assert has_other_users(people) is several


def connected(host: str) -> tuple[socket.socket, socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    client = socket.create_connection(listener.getsockname()[:2])
    return listener, client, listener.accept()[0]


@pytest.fixture(params=["asked", "looked up"])
def a_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel is asked about one connection; where it takes no questions, its table is read."""

    def refuses(*_: object) -> int:
        raise OSError

    if request.param == "looked up":
        monkeypatch.setattr(peer_process, "_ask", refuses)
    return request.param


needs_table = pytest.mark.skipif(
    not Path("/proc/net/tcp").exists(), reason="the system has no such table"
)


@needs_table
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_user_behind_a_connection_is_known(
    host: str, a_way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        sockets = connected(host)
    except OSError:
        pytest.skip(f"nothing can listen on {host}")
    client, server = sockets[1].getsockname()[:2], sockets[2].getsockname()[:2]
    try:
        assert await is_same_user(client, server) is True
        monkeypatch.setattr(peer_process.os, "getuid", lambda: os.geteuid() + 12_345)
        assert await is_same_user(client, server) is (os.geteuid() == 0)
        assert await is_same_user((host, 1), (host, 2)) is None
        assert await is_same_user(("nowhere", 1), (host, 2)) is None
        listener = sockets[0].getsockname()[1]
        assert await is_same_user((host, listener), (host, 2)) is None
    finally:
        for each in sockets:
            each.close()


@needs_table
async def test_a_connection_that_its_owner_has_closed_is_nobodys(a_way: str) -> None:
    """The kernel writes 0 for its owner, and so a stranger who sends and closes would be root."""
    listener, client, accepted = connected("127.0.0.1")
    ends = client.getsockname(), accepted.getsockname()
    client.sendall(b"POST / HTTP/1.1\r\n")
    client.close()
    try:
        assert await is_same_user(*ends) is None
    finally:
        accepted.close()
        listener.close()


async def test_where_the_system_tells_nothing_the_user_is_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(peer_process, "_NETLINK_SOCK_DIAG", 255)  # no such protocol
    monkeypatch.setattr(peer_process, "_TABLES", {4: tmp_path / "none", 6: tmp_path / "none"})
    listener, client, accepted = connected("127.0.0.1")
    with listener, client, accepted:
        assert await is_same_user(client.getsockname(), accepted.getsockname()) is None
