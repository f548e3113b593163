"""`toolgate serve --workers N`: several processes on one port, on a real PostgreSQL."""

import http.client
import json
import os
import re
import signal
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.conftest import Command, Serve, Serving, run_files, server_table, small_servers
from tests.limits import HANG_S
from tests.postgres import PostgresServer
from tests.server.http_gateway import headers_for, modern
from toolgate.base.processes import run_file
from toolgate.base.processes.liveness import is_running
from toolgate.base.processes.run_file import RunFile, WorkerState
from toolgate.cli.terminal._exit import SUCCESS, USAGE_ERROR
from toolgate.settings import run_dir

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="SO_REUSEPORT of Linux")

WORKERS = 2
CLIENTS = 4
T = TypeVar("T")

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def until(look: Callable[[], T | None]) -> T:
    """What there is to see, once there is."""
    deadline = monotonic() + HANG_S
    while True:
        if (seen := look()) is not None:
            return seen
        assert monotonic() < deadline
        sleep(0.02)


@pytest.fixture
def shared_store(folder: Path, postgres: PostgresServer) -> Path:
    """The working folder with a store that several processes can use."""
    tables = f'[serve]\nport = 0\n[store]\nurl = "{postgres.new_schema()}"\n'
    text = f'mode = "all"\n{tables}{server_table("small")}'
    (folder / "toolgate.toml").write_text(text, encoding="utf-8")
    return folder


def running() -> RunFile:
    """What the gateway announces; it says on standard error where it serves just before."""
    return until(lambda: next(iter(run_file.find_all(run_dir(), None)), None))


def all_serving(former: tuple[WorkerState, ...] = ()) -> tuple[WorkerState, ...]:
    """The workers once all of them serve, none of them in a process of before."""

    def look() -> tuple[WorkerState, ...] | None:
        workers = running().workers
        is_fresh = not {worker.pid for worker in workers} & {worker.pid for worker in former}
        serving = [worker.state for worker in workers] == ["serving"] * WORKERS
        return workers if serving and is_fresh else None

    return until(look)


class Client:
    """Calls a tool over connections that are kept open, as clients do."""

    def __init__(self, address: str) -> None:
        self._host = address.removeprefix("http://")
        self._connection = http.client.HTTPConnection(self._host, timeout=HANG_S)

    def post(self, message: Any, headers: dict[str, str]) -> tuple[Any, http.client.HTTPResponse]:
        """Send over the open connection; a client opens another when the gateway has closed it."""
        body = json.dumps(message).encode()
        self._connection.request("POST", "/mcp", body, headers)
        response = self._connection.getresponse()
        text = response.read().decode()
        if "id" in message:
            assert '"result"' in text, f"{response.status} {text}"
        is_stream = response.headers["Content-Type"] == "text/event-stream"
        last_line = text.strip().rpartition("\n")[2].removeprefix("data: ") if is_stream else text
        return json.loads(last_line or "null"), response

    def call(self, text: str) -> str:
        """A call by the protocol without sessions."""
        message = modern("tools/call", {"name": "small__echo", "arguments": {"text": text}})
        answer, _ = self.post(message, headers_for(message))
        return answer["result"]["content"][0]["text"]

    def open_session(self) -> dict[str, str]:
        """Headers of a new session of the handshake era."""
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        _, response = self.post(INITIALIZE, headers)
        headers |= {
            "Mcp-Session-Id": response.headers["Mcp-Session-Id"],
            "MCP-Protocol-Version": "2025-11-25",
        }
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        return headers

    def call_in_session(self, text: str, headers: dict[str, str]) -> str:
        """A call of a session, which any worker continues."""
        params = {"name": "small__echo", "arguments": {"text": text}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        answer, _ = self.post(message, headers)
        return answer["result"]["content"][0]["text"]

    def close(self) -> None:
        self._connection.close()


@contextmanager
def load(address: str) -> Iterator[list[str]]:
    """Clients of both eras that call all the time; gives what went wrong, complete at the end."""
    stop, problems = threading.Event(), list[str]()

    def work(number: int) -> None:
        client = Client(address)
        try:
            headers = client.open_session() if number % 2 else {}
            turn = 0
            while not stop.is_set():
                turn += 1
                text = f"{number}-{turn}"
                got = client.call_in_session(text, headers) if headers else client.call(text)
                if text not in got:
                    problems.append(f"{text} was answered with {got}")
                if turn % 50 == 0:
                    client.close()  # the next call opens another connection
        except Exception as error:  # noqa: BLE001 - any failure is a lost call
            problems.append(repr(error))
        finally:
            client.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield problems
    finally:
        stop.set()
        for thread in threads:
            thread.join(HANG_S)


def metrics(gateway: Serving) -> dict[str, dict[str, float]]:
    """Samples without labels of their own, by name and worker."""
    request = urllib.request.Request(
        f"{gateway.address}/metrics", headers={"X-Toolgate-Key": running().key}
    )
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:
        text = answer.read().decode()
    by_name: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if set(sample.labels) == {"worker"}:
                by_name.setdefault(sample.name, {})[sample.labels["worker"]] = sample.value
    return by_name


def test_several_workers_on_sqlite_are_refused(folder: Path, command: Command) -> None:
    done = command("serve", "--workers", "2")
    assert done.status == USAGE_ERROR
    assert "2 workers need a store for several processes; this one is sqlite:///" in done.err
    assert "PostgreSQL" in done.err
    assert run_files() == []


@pytest.mark.real
def test_a_rolling_restart_loses_no_call_and_a_crash_only_those_of_its_worker(
    shared_store: Path, serve: Serve
) -> None:
    gateway = serve("--workers", str(WORKERS))
    before = all_serving()
    until(lambda: len(small_servers(shared_store)) == WORKERS or None)
    assert set(metrics(gateway)["toolgate_tools"]) == {"1", "2"}

    with load(gateway.address) as problems:
        gateway.process.send_signal(signal.SIGHUP)
        after = all_serving(before)
        for worker in before:
            until(lambda pid=worker.pid: None if is_running(pid) else True)
    assert problems == []
    assert [worker.restarts for worker in after] == [0, 0]

    os.kill(after[1].pid, signal.SIGKILL)
    until(lambda: None if is_running(after[1].pid) else True)
    for turn in range(8):  # the port of the one that is gone receives nothing
        client = Client(gateway.address)
        assert str(turn) in client.call(str(turn))
        client.close()
    again = all_serving((after[1],))
    assert [worker.restarts for worker in again] == [0, 1]

    assert gateway.end() == SUCCESS
    assert run_files() == []
    assert [worker.pid for worker in again if is_running(worker.pid)] == []
    assert small_servers(shared_store) == []


@pytest.mark.real
def test_commands_know_a_gateway_of_several_workers(shared_store: Path, command: Command) -> None:
    started = command("start", "--workers", str(WORKERS), "--json")
    assert started.status == SUCCESS, started.err
    pid = started.json["pid"]
    try:
        workers = all_serving()
        shown = command("status")
        assert f"process {pid}" in shown.out
        assert f"worker 2: serving, process {workers[1].pid}" in shown.out
        assert [row["pid"] for row in command("status", "--json").json["workers"]] == [
            worker.pid for worker in workers
        ]
        # A worker serves before its servers have answered.
        call = ("call", "small:echo", "--arg", "text=x")
        assert until(lambda: command(*call).status == SUCCESS or None)
        logged = command("logs").out
        assert set(re.findall(r"worker=(\d)", logged)) == {"1", "2"}
        assert command("stop").status == SUCCESS
    finally:
        for run in run_file.find_all(run_dir(), None):
            os.kill(run.pid, signal.SIGKILL)
    assert [worker.pid for worker in workers if is_running(worker.pid)] == []


@pytest.mark.real
def test_workers_end_with_their_supervisor(shared_store: Path, serve: Serve) -> None:
    gateway = serve("--workers", str(WORKERS))
    workers = all_serving()
    gateway.process.kill()
    for worker in workers:
        until(lambda pid=worker.pid: None if is_running(pid) else True)
    until(lambda: None if small_servers(shared_store) else True)


@pytest.mark.real
def test_what_no_worker_can_start_with_is_reported_once(
    shared_store: Path, command: Command, program: Callable[..., Any]
) -> None:
    path = shared_store / "toolgate.toml"
    text = path.read_text("utf-8").replace("[serve]", 'optimization = "nothing"\n[serve]')
    path.write_text(text, encoding="utf-8")
    done = program("serve", "--workers", str(WORKERS))
    assert done.returncode == USAGE_ERROR
    assert done.stderr.count("nothing") == 1
    assert run_files() == []


def _private_mb(pid: int) -> float:
    """Memory that a process shares with no other, in MB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    return sum(int(kb) for kb in re.findall(r"Private_\w+:\s+(\d+) kB", text)) / 1024


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


@pytest.mark.usefixtures("shared_store")
def test_an_additional_worker_has_at_most_70_mb_of_its_own(serve: Serve) -> None:
    """Workers are forked from a process that has imported a gateway."""
    serving = serve("--workers", str(WORKERS))
    workers = all_serving()
    client = Client(serving.address)
    assert client.call("x")
    assert [_private_mb(worker.pid) for worker in workers if _private_mb(worker.pid) > 70] == []
    assert len({_parent(worker.pid) for worker in workers}) == 1


@pytest.mark.usefixtures("shared_store")
def test_workers_go_on_and_are_replaced_after_what_forks_them_was_killed(serve: Serve) -> None:
    serving = serve("--workers", str(WORKERS))
    workers = all_serving()
    forker = _parent(workers[0].pid)
    os.kill(forker, signal.SIGKILL)
    serving.line("the process that forks the workers has ended")
    assert all_serving() == workers
    assert Client(serving.address).call("x")
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)
    successors = all_serving(workers)
    assert forker not in {_parent(worker.pid) for worker in successors}
    os.kill(_parent(successors[0].pid), signal.SIGKILL)
    serving.line("the process that forks the workers has ended")
    assert serving.end() == SUCCESS
    until(lambda: True if not any(is_running(one.pid) for one in successors) else None)
