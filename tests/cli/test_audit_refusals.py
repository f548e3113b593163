"""A real gateway records refused logins, and closes what a killed one left open."""

import json
import signal
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import Command, Serve
from tests.limits import HANG_S
from toolgate.settings import data_dir

ENTRY_POINTS = (
    ("POST", "/mcp", 401),
    ("GET", "/api/v1/servers", 401),
    ("POST", "/v1/chat/completions", 401),
    ("POST", "/catalog/search", 404),  # not set up for others
    ("GET", "/metrics", 401),
)
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
WRONG = "tg_00000000_" + "x" * 43


def test_refused_logins_are_recorded_at_every_entry_point(
    folder: Path, serve: Serve, command: Command
) -> None:
    """No token, a wrong one, another's project, and the login of the console."""
    settings = folder / "toolgate.toml"
    settings.write_text('auth = "required"\n' + settings.read_text("utf-8"), "utf-8")
    admin = command("tokens", "create", "admin", "--role", "admin", "--json").json["token"]
    bob = command("tokens", "create", "bob", "--json").json["token"]
    serving = serve()
    with httpx2.Client(base_url=serving.address, timeout=HANG_S) as client:
        for headers in ({}, {"authorization": f"Bearer {WRONG}"}):
            for method, path, status in ENTRY_POINTS:
                answer = client.request(method, path, headers=headers, json=PING)
                assert answer.status_code == status, (path, answer.text)
        foreign = {"authorization": f"Bearer {bob}", "x-toolgate-project": "other"}
        assert client.get("/api/v1/servers", headers=foreign).status_code == 403
        page = client.get("/console/login").text
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        refused = client.post("/console/login", data={"csrf": csrf, "token": WRONG})
        assert refused.status_code == 401
        metrics = client.get("/metrics", headers={"authorization": f"Bearer {admin}"}).text
    assert serving.end() == 0

    listed = command("audit", "list", "--action", "login_refused", "--json")
    shown = command("audit", "list", "--action", "login_refused")

    records = {record["status"]: record for record in listed.json}
    assert len(listed.json) == 3
    assert {record["target"] for record in listed.json} == {"127.0.0.1"}
    entry_points = ["catalog", "mcp", "metrics", "openai", "rest"]
    assert records["no_token"]["detail"]["entry_points"] == entry_points
    assert records["no_token"]["detail"]["count"] == 5
    assert records["wrong_token"]["detail"]["entry_points"] == sorted(["console", *entry_points])
    assert records["wrong_token"]["detail"]["count"] == 6
    assert records["wrong_token"]["caller_id"] == ""
    assert records["wrong_project"]["caller_id"].startswith("token:")
    assert 'toolgate_login_refusals_total{reason="wrong_token"} 6.0' in metrics
    assert "127.0.0.1 (6 times)" in shown.out
    for secret in (admin, bob, WRONG):
        assert secret[12:] not in json.dumps(listed.json)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on Windows")
def test_calls_of_a_killed_gateway_are_closed_at_the_next_start(
    folder: Path, serve: Serve, command: Command
) -> None:
    """The call waits for ever in its server; another running gateway's call stays open."""
    first, other = serve(), serve()
    callers = [
        threading.Thread(target=_call_and_wait, args=(serving.address,), daemon=True)
        for serving in (first, other)
    ]
    for caller in callers:
        caller.start()
    assert len(_wait_for(2, "phase = 'intent'")) == 2
    first.end(signal.SIGKILL)

    third = serve()

    [closed] = _wait_for(1, "status = 'unknown'")
    assert json.loads(closed["detail"])["reason"] == "process ended"
    listed = command("audit", "list", "--status", "unknown", "--json").json
    assert [record["target"] for record in listed] == ["small:echo"]
    assert third.end() == 0
    other.process.kill()


def _call_and_wait(address: str) -> None:
    with suppress(httpx2.HTTPError):
        body = {"toolKey": "small:echo", "arguments": {"text": "never"}}
        httpx2.post(f"{address}/api/v1/execute", json=body, timeout=HANG_S)


def _wait_for(count: int, condition: str) -> list[dict[str, str]]:
    """Records of calls that fit, once there are so many."""
    query = f"SELECT parent_id, detail FROM audit WHERE action = 'call' AND {condition}"
    waiting = threading.Event()
    for _ in range(int(HANG_S * 10)):
        with closing(sqlite3.connect(data_dir() / "toolgate.db")) as connection:
            connection.row_factory = sqlite3.Row
            rows = [dict(row) for row in connection.execute(query)]
        if len(rows) >= count:
            return rows
        waiting.wait(0.1)
    raise AssertionError(f"not {count} records where {condition}")
