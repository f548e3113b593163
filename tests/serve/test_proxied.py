"""Behind a reverse proxy, and on a machine with several people."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from toolgate.serve import _neighbours
from toolgate.serve._neighbours import has_neighbours, is_same_user
from toolgate.serve._proxied import Proxied


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
    seen = Proxied(["10.0.0.0/8"], "").seen(
        scope(x_forwarded_for="9.9.9.9", x_forwarded_proto="https", x_forwarded_host="gw.example")
    )
    assert (seen["client"][0], seen["scheme"]) == ("9.9.9.9", "https")
    assert [value for name, value in seen["headers"] if name == b"host"] == [b"gw.example"]


def test_what_anybody_else_says_is_only_text() -> None:
    given = scope("11.0.0.1", x_forwarded_for="127.0.0.1", x_forwarded_proto="https")
    assert Proxied(["10.0.0.0/8"], "").seen(given)["client"] == ("11.0.0.1", 5)
    assert Proxied([], "").seen(given) is given


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
    seen = Proxied(["10.0.0.0/8"], "").seen(scope(x_forwarded_for=text))
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
    seen = Proxied([], "/tools").seen(scope(path=path))
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
    assert has_neighbours(people) is several


def connected() -> tuple[socket.socket, socket.socket, socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    return listener, client, listener.accept()[0]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the system has no such table")
def test_the_user_behind_a_connection_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    sockets = connected()
    ends = sockets[1].getsockname(), sockets[2].getsockname()
    try:
        assert is_same_user(*ends) is True
        monkeypatch.setattr(_neighbours.os, "getuid", lambda: os.geteuid() + 12_345)
        assert is_same_user(*ends) is (os.geteuid() == 0)
        assert is_same_user(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
        assert is_same_user(("nowhere", 1), ("127.0.0.1", 2)) is None
    finally:
        for each in sockets:
            each.close()
