"""`toolgate serve` and `toolgate stdio`: how they start, are found, take over changes and end."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import (
    Command,
    LoadedBy,
    Run,
    Serve,
    children_of,
    run_files,
    server_table,
    small_servers,
)
from tests.limits import HANG_S
from toolgate.cli.serving.serve import command as serve_command
from toolgate.cli.terminal._exit import SUCCESS, USAGE_ERROR
from toolgate.cli.terminal._plain_command import PlainCommand
from toolgate.cli.terminal._ports import local_address
from toolgate.security.addresses import is_loopback
from toolgate.settings import data_dir

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

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
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ECHO = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "small__echo", "arguments": {"text": "hi"}},
}


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=HANG_S) as answer:
        return json.load(answer)


def post(url: str, body: Any, *, thread: str = "") -> Any:
    headers = {"content-type": "application/json"} | (
        {"x-toolgate-thread": thread} if thread else {}
    )
    wanted = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(wanted, timeout=HANG_S) as answer:
        return json.load(answer)


def page_of_browser(url: str) -> str:
    """A console page, as a browser is shown it."""
    wanted = urllib.request.Request(url, headers={"Sec-Fetch-Site": "none"})
    with urllib.request.urlopen(wanted, timeout=HANG_S) as answer:
        return answer.read().decode()


def test_serve_says_where_to_connect_and_how_each_server_is(serve: Serve) -> None:
    gateway = serve()
    assert f"toolgate {gateway.address}/mcp" in gateway.line("Claude Code")
    entry = json.loads(gateway.line("mcpServers").partition("{")[2].join(["{", ""]))
    assert entry == {"mcpServers": {"toolgate": {"url": f"{gateway.address}/mcp"}}}
    assert "ready, protocol 2025-11-25, 3 tools" in gateway.line("small")
    assert get(f"{gateway.address}/readyz") == {"ready": True}


@POSIX
def test_the_run_file_is_for_its_user_alone_and_goes_with_the_gateway(serve: Serve) -> None:
    gateway = serve()
    (path,) = run_files()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    said = json.loads(path.read_text("utf-8"))
    assert said["address"] == gateway.address
    assert said["pid"] == gateway.process.pid
    assert len(said["key"]) >= 32
    assert gateway.end() == SUCCESS
    assert run_files() == []


@POSIX
def test_the_data_folder_is_for_its_user_alone_wherever_store_and_audit_key_are(
    serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folders inside it were created first, which gave it the usual mode."""
    monkeypatch.setenv("TOOLGATE_AUDIT_KEY", "aa" * 32)
    with (folder / "toolgate.toml").open("a", encoding="utf-8") as file:
        file.write(f'[store]\nurl = "sqlite:///{folder / "elsewhere.db"}"\n')
    serve()
    folders = [data_dir(), *(path for path in data_dir().rglob("*") if path.is_dir())]
    assert {path: stat.S_IMODE(path.stat().st_mode) for path in folders} == dict.fromkeys(
        folders, 0o700
    )


@POSIX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_serve_ends_cleanly_with_its_children(
    number: signal.Signals, serve: Serve, folder: Path
) -> None:
    gateway = serve()
    gateway.line("small")
    children = children_of(gateway.process.pid)
    assert children
    assert gateway.end(number) == SUCCESS
    assert "Traceback" not in gateway.output.read()
    assert small_servers(folder) == []
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


@POSIX
def test_a_killed_gateway_leaves_no_child_and_its_run_file_misleads_nobody(
    serve: Serve, command: Command, folder: Path
) -> None:
    gateway = serve()
    gateway.line("small")
    gateway.end(signal.SIGKILL)
    assert len(run_files()) == 1
    assert command("call", "small:echo", "--arg", "text=x").status == SUCCESS
    assert run_files() == []


@POSIX
def test_a_hang_up_reads_the_configuration_again(serve: Serve, folder: Path) -> None:
    gateway = serve()
    gateway.line("small")
    path = folder / "toolgate.toml"
    path.write_text(path.read_text("utf-8") + server_table("second"), encoding="utf-8")
    gateway.process.send_signal(signal.SIGHUP)
    assert "servers=2" in gateway.line("configuration reloaded")
    names = [server["name"] for server in get(f"{gateway.address}/api/v1/servers")["servers"]]
    assert names == ["small", "second"]


def test_a_changed_file_is_taken_over_and_a_broken_one_changes_nothing(
    serve: Serve, folder: Path
) -> None:
    gateway = serve()
    gateway.line("small")
    path = folder / "toolgate.toml"
    before = path.read_text("utf-8")
    path.write_text("[server.", encoding="utf-8")
    assert "toolgate.toml" in gateway.line("invalid configuration")
    path.write_text(before + server_table("second"), encoding="utf-8")
    gateway.line("configuration reloaded")
    names = [server["name"] for server in get(f"{gateway.address}/api/v1/servers")["servers"]]
    assert names == ["small", "second"]


@pytest.mark.real
@POSIX
def test_a_call_that_waits_for_a_person_outlives_a_kill(serve: Serve, folder: Path) -> None:
    """The turn goes on in another process, with what it had said and asked."""
    with (folder / "toolgate.toml").open("a", encoding="utf-8") as file:
        file.write(
            '[[guard]]\ntools = ["small:add_numbers"]\napprover = "user"\n'
            '[models.main]\nprovider = "scripted"\n[models.main.options]\nsteps = ['
            '{ user = "add", call = { name = "small__add_numbers",'
            " arguments = { a = 2, b = 3 } } },"
            '{ after = "small__add_numbers", say = "The sum: {result}" }]\n'
        )
    first = serve()
    first.line("small")
    question = {"messages": [{"role": "user", "content": "Please add the numbers."}]}
    asked = post(f"{first.address}/v1/chat/completions", question, thread="t")
    assert "approval" in asked["choices"][0]["message"]["content"]
    first.end(signal.SIGKILL)

    second = serve()
    second.line("small")
    history = f"{second.address}/v1/chat/history?thread_id=t"
    (waiting,) = get(history)["pending"]
    page = page_of_browser(f"{second.address}/console/approvals")
    code = page.partition(f"{waiting['approval_id']} --code ")[2][:9]
    post(f"{second.address}/api/v1/approvals/{waiting['approval_id']}/approve", {"code": code})
    resumed = post(f"{second.address}/v1/chat/resume", {}, thread="t")
    assert resumed["choices"][0]["message"]["content"] == 'The sum: {"sum": 5}'
    after = get(history)
    assert [one["role"] for one in after["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert after["pending"] == []


def test_a_port_that_our_own_gateway_has_is_named_with_it(serve: Serve, toolgate: Run) -> None:
    gateway = serve()
    port = gateway.address.rpartition(":")[2]
    second = toolgate("serve", "--port", port)
    assert second.returncode == USAGE_ERROR
    assert f"taken by the Toolgate gateway with process id {gateway.process.pid}" in second.stderr
    assert second.stderr.count("\n") == 1


def test_a_port_that_another_program_has_is_one_sentence_with_what_to_do(
    toolgate: Run, folder: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = toolgate("serve", "--port", str(other.getsockname()[1]))
    assert done.returncode == USAGE_ERROR
    assert "used by another program" in done.stderr
    assert "Traceback" not in done.stderr
    assert small_servers(folder) == []


def test_the_log_can_be_json_in_a_file_for_its_user_alone(serve: Serve, folder: Path) -> None:
    path = folder / "toolgate.toml"
    path.write_text(
        f'[log]\nformat = "json"\nfile = {json.dumps(str(folder / "gateway.log"))}\n'
        + path.read_text("utf-8"),
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "toolgate", "serve", "--port", "0"], stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        assert b"serves http://" in process.stderr.readline()
    finally:
        process.terminate()
        assert process.wait(timeout=HANG_S) == SUCCESS
        process.stderr.close()
    lines = (folder / "gateway.log").read_text("utf-8").splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert "serving" in events


def test_the_serving_process_loads_no_library_of_the_command_line(loaded_by: LoadedBy) -> None:
    """Our decision: alembic, typer and rich stay out of the process that serves.

    The expressions of intent detection wait for the first message.
    """
    modules = loaded_by(
        "from toolgate.cli.serving.serve import load_process; load_process();"
        "import toolgate.cli.serving._attach;"
        "from toolgate.intents.patterns import are_compiled; assert not are_compiled();"
        "import toolgate.store.sqlite"
    )
    assert not {"typer", "rich", "alembic", "click", "multiprocessing"} & modules
    assert "sqlalchemy.dialects.postgresql" not in modules


def test_a_start_imports_no_command_line_and_builds_no_model_that_it_does_not_need(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: uvicorn's lifespan module imported click, and default options a validator.

    Python itself prints what it imports.
    """
    (folder / "toolgate.toml").write_text("", encoding="utf-8")
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "toolgate", "serve", "--port", "0"], stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        lines = takewhile(lambda line: b"serves http://" not in line, process.stderr)
        modules = {line.rpartition(b"|")[2].strip().decode() for line in lines}
    finally:
        process.terminate()
        process.communicate(timeout=HANG_S)
    assert "toolgate.server.http" in modules
    assert not {"click", "typer", "multiprocessing", "pydantic.type_adapter"} & modules


def test_a_relay_loads_nothing_of_a_gateway(loaded_by: LoadedBy) -> None:
    """There is one for each client as long as it runs; it took 100 MB and 0.6 s more."""
    modules = loaded_by("import toolgate.cli.serving._attach, toolgate.server.mcp.relay")
    heavy = {
        "toolgate.app.app",
        "toolgate.gateway.gateway",
        "toolgate.server.http",
        "numpy",
        "sqlalchemy",
    }
    assert not {*heavy, "uvicorn", "mcp", "starlette"} & modules


def test_the_options_of_serve_are_data_with_one_reader() -> None:
    assert isinstance(serve_command, PlainCommand)
    assert [option.name for option in serve_command.options] == [
        "host",
        "port",
        "auth",
        "log_file",
        "workers",
        "dev",
    ]


def converse(*argv: str, tool: str = "small__echo") -> tuple[list[dict[str, Any]], str, int]:
    """A client that starts `toolgate stdio`, calls a tool and closes the pipe."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolgate", "stdio", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    answers: list[dict[str, Any]] = []
    try:
        echo = {**ECHO, "params": {"name": tool, "arguments": {"text": "hi"}}}
        for message in (INITIALIZE, INITIALIZED, echo):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            while "id" in message and not any(a.get("id") == message["id"] for a in answers):
                answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        rest = process.stdout.read()
        status = process.wait(timeout=HANG_S)
        answers += [json.loads(line) for line in rest.splitlines()]
        return answers, process.stderr.read(), status
    finally:
        process.kill()
        process.wait(timeout=HANG_S)
        process.stdout.close()
        process.stderr.close()


def test_stdio_serves_with_nothing_but_protocol_on_its_output(folder: Path) -> None:
    answers, _, status = converse()
    results = {answer.get("id"): answer.get("result") or {} for answer in answers}
    assert results[1]["serverInfo"]["name"] == "toolgate"
    assert results[2]["content"][0]["text"].startswith('{"text": "hi"}')
    assert status == SUCCESS
    assert small_servers(folder) == []


def test_stdio_attaches_to_the_running_gateway_of_the_same_store(
    serve: Serve, folder: Path
) -> None:
    serve().line("small")
    before = small_servers(folder)
    answers, said, status = converse()
    assert "attached" in said
    assert any("hi" in json.dumps(answer) for answer in answers)
    assert status == SUCCESS
    assert small_servers(folder) == before


def test_a_gateway_of_another_configuration_over_the_same_store_is_left_alone(
    serve: Serve, toolgate: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = serve()
    gateway.line("small")
    other = tmp_path / "other"
    other.mkdir()
    (other / "toolgate.toml").write_text("[serve]\nport = 0\n" + server_table("mine"), "utf-8")
    monkeypatch.chdir(other)
    listed = toolgate("tools", "--json")
    assert {tool["serverName"] for tool in json.loads(listed.stdout)} == {"mine"}
    _, said, status = converse(tool="mine__echo")
    assert "attached" not in said
    assert status == SUCCESS
    monkeypatch.chdir(tmp_path)
    assert toolgate("tools", "--json").stdout.strip() == "[]"
    (folder / "inner").mkdir()
    path = os.path.relpath(folder / "toolgate.toml", folder / "inner")
    monkeypatch.chdir(folder / "inner")
    assert "attached" in converse("--config", path)[1]


def test_serve_names_another_gateway_over_the_same_store(serve: Serve, folder: Path) -> None:
    first = serve()
    other = folder / "other.toml"
    other.write_text(server_table("mine"), encoding="utf-8")
    said = serve("--config", str(other)).line("note: another gateway uses the same store")
    assert first.address in said
    assert str(folder / "toolgate.toml") in said


def test_serve_warns_when_other_machines_reach_it_and_names_an_address_to_connect_to(
    serve: Serve,
) -> None:
    process = serve("--host", "127.0.0.1")
    assert process.address.startswith("http://127.0.0.1:")
    process.end()
    assert "WARNING" not in process.output.read()
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("gateway.example.org")
    assert is_loopback("[::1]")
    assert local_address("http://0.0.0.0:7420") == "http://127.0.0.1:7420"
    assert local_address("http://[::]:7420") == "http://[::1]:7420"
    assert local_address("http://10.0.0.1:7420") == "http://10.0.0.1:7420"


def test_stdio_alone_uses_no_running_gateway(serve: Serve, folder: Path) -> None:
    serve().line("small")
    answers, said, status = converse("--standalone")
    assert "attached" not in said
    assert any("hi" in json.dumps(answer) for answer in answers)
    assert status == SUCCESS


@POSIX
def test_a_gateway_without_terminal_or_parent_does_not_wait_for_input(serve: Serve) -> None:
    """Started by a service manager: standard input is closed."""
    gateway = serve()
    assert gateway.process.poll() is None
    assert gateway.end() == SUCCESS


@pytest.mark.skipif(sys.platform != "linux", reason="sets the limit of another process")
def test_a_process_without_descriptors_closes_idle_connections_and_goes_on(serve: Serve) -> None:
    import resource

    gateway = serve()
    gateway.line("small")
    greeting = urllib.request.Request(
        f"{gateway.address}/mcp",
        json.dumps(INITIALIZE).encode(),
        {"content-type": "application/json", "accept": "application/json, text/event-stream"},
    )
    with urllib.request.urlopen(greeting, timeout=HANG_S) as answer:
        answer.read()  # nothing is left to import, which would need descriptors too
    pid = gateway.process.pid
    in_use = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 20, in_use + 20))
    port = int(gateway.address.rpartition(":")[2])
    held: list[socket.socket] = []
    for _ in range(200):
        held.append(socket.create_connection(("127.0.0.1", port), timeout=HANG_S))
        held[-1].sendall(b"POST /mcp HTTP/1.1\r\nHost: ")
    try:
        assert get(f"{gateway.address}/healthz") == {"status": "ok"}
    finally:
        for connection in held:
            connection.close()
    gateway.end()
    told = gateway.output.read()
    assert told.count("connections refused") == 1
    assert "Traceback" not in told
    assert len(told) < 10_000
