"""`toolgate doctor`: what it finds, what it says to do, and what its archive does not contain."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest

from tests.cli.conftest import SMALL_SERVER, Command, Serve, server_table, small_servers
from tests.limits import HANG_S
from toolgate import settings
from toolgate.base.processes import run_file
from toolgate.cli.setup._support_archive import Scrubber
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.types import ServerSpec


def configure(folder: Path, tables: str) -> None:
    """Write tables to `toolgate.toml`, with a free port: a gateway may have the usual one."""
    free = "" if "[serve]" in tables else "\n[serve]\nport = 0\n"
    (folder / "toolgate.toml").write_text(tables + free, encoding="utf-8")


def test_doctor_finds_nothing_wrong_with_what_works(command: Command, folder: Path) -> None:
    done = command("doctor")
    assert done.status == SUCCESS, done.out
    assert "ok       server small: Answers in " in done.out
    assert done.err == "Everything works.\n"
    assert small_servers(folder) == []


def test_doctor_as_json_names_every_check(command: Command, folder: Path) -> None:
    report = command("doctor", "--json").json
    assert report["ok"] is True
    names = [check["name"] for check in report["checks"]]
    assert names == [
        "versions",
        "terminal",
        "configuration",
        "disk",
        "store",
        "port",
        "server small",
        "packs",
    ]
    assert {check.keys() >= {"name", "state", "found", "hint"} for check in report["checks"]} == {
        True
    }


def test_doctor_uses_a_running_gateway(command: Command, serve: Serve, folder: Path) -> None:
    gateway = serve()
    gateway.line("small")
    before = small_servers(folder)
    done = command("doctor")
    assert done.status == SUCCESS, done.out
    assert f"The gateway runs at {gateway.address} (process {gateway.process.pid}" in done.out
    assert "server small: Ready, protocol 2025-11-25, 3 tools." in done.out
    assert small_servers(folder) == before


def test_a_server_that_sleeps_is_no_problem(command: Command, serve: Serve, folder: Path) -> None:
    """Regression: it was one that does not answer."""
    path = folder / "toolgate.toml"
    on_demand = 'start = "on-demand"\nidle_s = 0.1\n'
    path.write_text(path.read_text(encoding="utf-8") + on_demand, encoding="utf-8")
    serve()
    within = monotonic() + HANG_S
    while command("servers", "list", "--json").json[0]["state"] != "asleep":
        assert monotonic() < within
    done = command("doctor")
    assert done.status == SUCCESS, done.out
    assert "server small: Asleep, 3 tools." in done.out


def test_doctor_reports_a_missing_variable_once(command: Command, folder: Path) -> None:
    table = "[server.x]\ncommand = 'sh'\nenv = { A = '${env:NOT_SET_ANYWHERE}' }\n"
    configure(folder, table)
    done = command("doctor")
    assert done.out.count("needs the variable NOT_SET_ANYWHERE") == 1
    assert done.err.splitlines()[-1] == "Found 1 problem."


@pytest.mark.parametrize(
    ("text", "found", "hint"),
    [
        ("[server.x]\ncommand = \n", "toolgate.toml, line 2", "Correct the TOML there."),
        ("[serve]\nprot = 1\n", "'prot'", "Did you mean 'port'?"),
        ("[server.x]\ncommand = 'npx-not-here'\n", "'npx-not-here' was not found", "Install"),
        (
            "[server.x]\ncommand = 'sh'\nenv = { A = '${env:NOT_SET_ANYWHERE}' }\n",
            "NOT_SET_ANYWHERE, which is not set",
            "",
        ),
        ("[server.x]\nurl = 'http://127.0.0.1:9/mcp'\n", "127.0.0.1:9", "toolgate servers test x"),
        (
            "[search]\nembedder = 'onnx'\nembedder_options = { folder = '/no/such' }\n",
            "embedder: The folder '/no/such' of the embedder 'onnx' does not exist.",
            "Correct folder under search.embedder_options",
        ),
        ("[store]\nurl = 'mysql://x'\n", "mysql", "Allowed: sqlite:///PATH"),
        ("[store]\nurl = 'sqlite:////proc/x/y.db'\n", "/proc/x/y.db", ""),
    ],
    ids=["toml", "key", "command", "variable", "unreachable", "embedder", "scheme", "store"],
)
def test_doctor_says_what_to_do_about_a_problem(
    text: str, found: str, hint: str, command: Command, folder: Path
) -> None:
    configure(folder, text)
    if "/proc/x" in text:
        (folder / "no").mkdir()
        (folder / "no" / "y.db").write_bytes(b"this is no database" * 100)
        text = text.replace("/proc/x", str(folder / "no"))
        configure(folder, text)
        found = "y.db"
    done = command("doctor")
    assert done.status == FAILED
    assert "PROBLEM" in done.out
    assert found in done.out
    assert hint in done.out
    assert "Traceback" not in done.out + done.err


def test_doctor_names_the_server_that_dies_with_what_it_wrote(
    command: Command, folder: Path
) -> None:
    configure(folder, server_table("bad", "--dies", SMALL_SECRET="last words"))
    done = command("doctor")
    assert done.status == FAILED
    assert "PROBLEM  server bad: " in done.out
    assert "Its last output: small server [secret masked]" in done.out


FAILURES = {
    "docker": (
        "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker "
        "daemon running?\n\nRun 'docker run --help' for more information\n",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
        "-> Start Docker: ",
    ),
    "python": (
        'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n'
        "RuntimeError: quota of 3 exceeded\n",
        "RuntimeError: quota of 3 exceeded.",
        "-> See its output: toolgate servers test bad",
    ),
    "node": (
        "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n"
        "Error: Cannot find module '/srv/index.js'\n    at Module.load (node:1:2)\n"
        "  code: 'MODULE_NOT_FOUND'\n}\n\nNode.js v22.1.0\n",
        "Node.js finds no module '/srv/index.js'.",
        "npm install",
    ),
    "npm": (
        "npm error code E404\nnpm error 404 Not Found - GET the package\nnpm error 404\n"
        "npm error 404  '@none/nope@*' is not in this registry.\n"
        "npm error A complete log of this run can be found in: /x.log\n",
        "The npm registry has no package '@none/nope'.",
        "npm search",
    ),
    "module": (
        'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n'
        "ModuleNotFoundError: No module named 'pandas'\n",
        "Its Python has no module 'pandas'.",
        "python -m pip install pandas",
    ),
    "variable": (
        "Error: NOTION_TOKEN environment variable is required\n",
        "NOTION_TOKEN environment variable is required.",
        "-> Give it the value: toolgate credentials set bad --env NOTION_TOKEN",
    ),
    "dns": (
        "Error: getaddrinfo ENOTFOUND api.example.test\n",
        "The name 'api.example.test' cannot be resolved",
        "nslookup api.example.test",
    ),
    "file": (
        "python: can't open file '/srv/gone.py': [Errno 2] No such file or directory\n",
        "Python finds no file '/srv/gone.py'.",
        "-> Correct the path in args of [server.bad].",
    ),
    "argument": (
        "usage: x [-h] --db DB\nx: error: the following arguments are required: --db\n",
        "It lacks arguments: --db.",
        "-> Add them to args of [server.bad].",
    ),
    "permission": (
        "npm error Error: EACCES: permission denied, mkdir '/usr/lib/my modules'\n",
        "It may not write to '/usr/lib/my modules'.",
        "sudo chown -R $USER '/usr/lib/my modules'",
    ),
    "libc": (
        "/lib/libc.so.6: version `GLIBC_2.38' not found (required by ./srv)\n",
        "The program needs GLIBC 2.38, which this system is too old for.",
        "-> Install a build for this system",
    ),
    "proxy": (
        "error: Request failed after 3 retries in 6.3s\n  cause: client error (Connect)\n  cause: "
        "tunnel error: failed to create underlying connection\n  cause: dns error\n",
        "It cannot connect through the proxy that HTTPS_PROXY names.",
        "-> Correct HTTPS_PROXY where Toolgate runs",
    ),
    "tls": (
        "Error: self-signed certificate in certificate chain\n",
        "The TLS certificate is not trusted",
        "NODE_EXTRA_CA_CERTS",
    ),
}
"""What programs write, what is reported of it, and what to do."""


@pytest.mark.parametrize(("written", "found", "hint"), FAILURES.values(), ids=FAILURES)
def test_doctor_shows_the_line_that_says_why_a_server_ended(
    written: str, found: str, hint: str, command: Command, folder: Path
) -> None:
    code = f"import sys; sys.stderr.write({written!r}); sys.exit(125)"
    configure(
        folder,
        f"[server.bad]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = ['-c', {json.dumps(code)}]\n",
    )
    report = command("doctor", "--json").json
    (check,) = (check for check in report["checks"] if check["state"] == "problem")
    assert check["name"] == "server bad"
    assert found in check["found"]
    assert hint in f"-> {check['hint']}"
    assert "125" not in check["found"]


def test_a_server_that_waits_for_a_dead_proxy_is_explained(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgate.app.server_check.WAIT_S", 0.5)
    for variable in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    configure(folder, server_table("bad", "--never"))
    tested = command("servers", "test", "bad")
    assert "the proxy variables name http://127.0.0.1:9, where nothing answers" in tested.err
    done = command("doctor")
    assert "nothing answers at its proxy http://127.0.0.1:9." in done.out.replace("\n", " ")
    assert "Correct HTTPS_PROXY" in done.out


@pytest.mark.parametrize(
    ("way", "found", "hint"),
    [
        ("dns", "The name 'no-such-host.invalid' cannot be resolved", "nslookup"),
        ("tls", "The server does not speak TLS on this port.", "write http:// for https://"),
        ("proxy", "The proxy 127.0.0.1:9 cannot be reached.", 'proxy = "none" in [server.web]'),
        ("proxy name", "The proxy no-such-proxy.invalid cannot be reached: DNS", "HTTPS_PROXY"),
        ("login", "The proxy wants a user name and a password (407).", "HTTPS_PROXY=http://USER"),
    ],
)
def test_doctor_explains_errors_of_dns_tls_and_proxies(
    way: str, found: str, hint: str, command: Command, folder: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, no_proxy = listener.getsockname()[1], "no-such-proxy.invalid"
        answering = threading.Thread(target=refuse_as_proxy, args=(listener,), daemon=True)
        answering.start()
        lines = {
            "dns": "url = 'https://no-such-host.invalid/mcp'",
            "tls": f"url = 'https://127.0.0.1:{port}/mcp'",
            "proxy": "url = 'https://example.test/mcp'\nproxy = 'http://127.0.0.1:9'",
            "proxy name": f"url = 'https://example.test/mcp'\nproxy = 'http://{no_proxy}:9'",
            "login": f"url = 'https://example.test/mcp'\nproxy = 'http://127.0.0.1:{port}'",
        }
        configure(folder, f"[server.web]\n{lines[way]}\n")
        done = command("doctor")
    assert done.status == FAILED
    assert f"PROBLEM  server web: {found}" in done.out
    assert hint in done.out


def refuse_as_proxy(listener: socket.socket) -> None:
    """Answer every connection as a proxy that wants a login."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # the test is over
            return
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")


@pytest.mark.parametrize(
    ("make", "found", "hint"),
    [
        ("touch 'x y'", "is a file that may not be executed.", "chmod +x '"),
        ("mkdir 'x y'", "is a folder.", "Name the program in it."),
        (
            "printf '#!/no/such/shell -e' > 'x y'; chmod +x 'x y'",
            "names '/no/such/shell', which does not exist.",
            "Install it, or start the script with another program.",
        ),
        ("", "was not found.", "Install the program"),
        (
            "printf '#!/bin/sh\\nexit 0' > 'x y'; chmod +x 'x y'",
            "The process exited with status 0.",
            "Run it by hand: '",
        ),
    ],
    ids=["not executable", "folder", "interpreter", "absent", "silent"],
)
def test_doctor_says_what_is_wrong_with_a_program(
    make: str, found: str, hint: str, command: Command, folder: Path
) -> None:
    subprocess.run(["sh", "-c", make], cwd=folder, check=True)
    configure(folder, f"[server.bad]\ncommand = '{folder}/x y'\nargs = ['one two']\n")
    report = command("doctor", "--json").json
    (check,) = (check for check in report["checks"] if check["state"] == "problem")
    assert found in check["found"]
    assert hint in check["hint"]


def test_doctor_offers_to_make_a_folder_that_a_server_runs_in(
    command: Command, folder: Path
) -> None:
    gone = folder / "not there"
    configure(folder, f"{server_table('small')}cwd = {json.dumps(str(gone))}\n")
    done = command("doctor").out
    assert f"The folder {str(gone)!r} in which it is to run does not exist." in done
    assert f"-> Create it: mkdir -p '{gone}'" in done


@pytest.mark.parametrize(
    ("answer", "found", "hint"),
    [
        ("404 Not Found", "answers with 404 Not Found", "its path is often /mcp or /sse"),
        ("200 OK", "answers with a web page, not as an MCP server", "Correct url of [server.web]"),
        (
            "401 Unauthorized",
            "wants a login, or a key in a header (401 Unauthorized).",
            "toolgate servers login web, or: toolgate credentials set web --header Authorization",
        ),
        ("", "ends the connection without an answer.", "write https:// in url of [server.web]"),
    ],
    ids=["path", "page", "login", "nothing"],
)
def test_doctor_says_what_an_address_is_that_is_no_server(
    answer: str, found: str, hint: str, command: Command, folder: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        head = f"HTTP/1.1 {answer}\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi"
        bytes_sent = head.encode() if answer else b""
        arguments = (listener, bytes_sent)
        threading.Thread(target=answer_all, args=arguments, daemon=True).start()
        text = f"[server.web]\nurl = '{url}'\n"
        configure(folder, text)
        done = command("doctor").out
    assert f"PROBLEM  server web: {url} {found}" in done
    assert hint in done


def answer_all(listener: socket.socket, answer: bytes) -> None:
    """Answer every connection with these bytes."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # the test is over
            return
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)


def test_doctor_names_a_cause_once_for_all_servers_that_it_prevents(
    command: Command, folder: Path
) -> None:
    table = (
        "command = 'sh'\nargs = ['-c', 'echo Cannot connect to the Docker daemon >&2; exit 1']\n"
    )
    missing = "command = 'npx-not-here'\n"
    configure(
        folder, f"[server.a]\n{table}[server.b]\n{table}[server.c]\n{missing}[server.d]\n{missing}"
    )
    done = command("doctor")
    assert "PROBLEM  servers a, b: Cannot connect to the Docker daemon." in done.out
    assert "PROBLEM  servers c, d: The command 'npx-not-here' was not found." in done.out
    assert done.err == "Found 2 problems.\n"


def test_doctor_starts_servers_at_the_same_time(command: Command, folder: Path) -> None:
    """Each server waits for the other one, so neither starts unless both do."""
    tables = ""
    for own, other in (("a", "b"), ("b", "a")):
        script = (
            f"touch {folder}/{own}; while ! test -e {folder}/{other}; do :; done; "
            f"exec {sys.executable} {SMALL_SERVER}"
        )
        tables += f"[server.{own}]\ncommand = 'sh'\nargs = ['-c', {json.dumps(script)}]\n"
    configure(folder, tables)
    done = command("doctor")
    assert done.status == SUCCESS, done.out


def test_doctor_knows_that_pinned_tools_may_belong_to_servers_of_the_store(
    command: Command, folder: Path
) -> None:
    assert command("servers", "add", "kept", "--", sys.executable, str(SMALL_SERVER)).status == 0
    path = folder / "toolgate.toml"
    path.write_text(f'pinned = ["kept:echo"]\n{path.read_text("utf-8")}', encoding="utf-8")
    assert "is pinned" not in command("doctor", "--quick").out


def test_doctor_says_who_has_the_port(command: Command, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = f"[serve]\nport = {port}\n"
        configure(folder, text)
        done = command("doctor")
    assert done.status == FAILED
    assert f"Port {port} on 127.0.0.1 is in use by another program." in done.out


def test_a_gateway_of_another_user_is_no_unknown_program(
    command: Command, folder: Path, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = urlsplit(serve().address).port
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    configure(folder, f"[serve]\nport = {port}\n")
    done = command("doctor", "--quick")
    taken = "a Toolgate gateway of another user, or with another data folder."
    assert f"in use by {taken}" in done.out.replace("\n", " ")
    assert "Stop it" not in done.out
    assert f"is taken by {taken}" in command("serve").err.replace("\n", " ")


def test_doctor_without_configuration_points_to_init(command: Command, folder: Path) -> None:
    (folder / "toolgate.toml").unlink()
    shown = command("doctor", "--quick").out
    assert "toolgate init" in shown
    assert "toolgate add NAME -- COMMAND" in shown


def test_doctor_names_commands_for_servers_that_no_file_has(command: Command, folder: Path) -> None:
    command("servers", "add", "web", "http://127.0.0.1:9/mcp")
    shown = command("doctor").out
    assert "server web: Nothing listens at http://127.0.0.1:9/mcp." in shown
    assert "correct url: toolgate servers remove web && toolgate add web URL" in shown
    assert "[server.web]" not in shown


def test_doctor_is_content_with_servers_of_the_store_alone(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a file it is the usual port, which a gateway of whoever runs the tests may have.
    monkeypatch.setattr("toolgate.cli.setup._checks.can_listen", lambda *_: True)
    (folder / "toolgate.toml").unlink()
    assert command("servers", "add", "one", "--", sys.executable, "-c", "").out
    done = command("doctor", "--quick")
    assert "There is no toolgate.toml, and the store has 1 server." in done.out
    assert done.status == SUCCESS


@pytest.mark.skipif(sys.platform == "win32", reason="whether a process lives is not asked there")
def test_doctor_names_run_files_that_a_kill_left(command: Command, folder: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    run = run_file.write(
        settings.run_dir(),
        address="http://127.0.0.1:1",
        store="x",
        configuration=("",),
        started_at="",
        version="",
    )
    text = run.path.read_text("utf-8").replace(f'"pid": {os.getpid()}', f'"pid": {ended.pid}')
    run.path.write_text(text, encoding="utf-8")
    done = command("doctor")
    assert "ok       run file: 1 run file left by killed gateways; the next command" in done.out
    assert done.err.endswith("Everything works.\n")


def test_doctor_counts_a_fault_once(command: Command, folder: Path) -> None:
    """A command that is not there is found by looking, and again by starting the server."""
    configure(folder, "[server.x]\ncommand = 'npx-not-here'\n")
    done = command("doctor")
    assert done.out.count("PROBLEM") == 1
    assert "Found 1 problem" in done.err


def test_doctor_names_pinned_tools_that_are_not_there(
    command: Command, serve: Serve, folder: Path
) -> None:
    path = folder / "toolgate.toml"
    pinned = 'pinned = ["nobody:echo", "small:echo", "small:gone"]\n'
    path.write_text(pinned + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert "'nobody:echo' is pinned, but there is no server 'nobody'." in command("doctor").out
    gateway = serve()
    logged = gateway.line("pinned tool is not there")
    done = command("doctor")
    assert "nobody:echo" in logged
    assert "'small:gone' is pinned, but its server has no such tool." in done.out
    assert "'small:echo'" not in done.out
    assert done.err.endswith("Everything works, with 2 warnings.\n")


SECRETS = {
    "env": "planted-env-value-1",
    "header": "planted-header-value-2",
    "argument": "planted-argument-3",
    "flag": "planted-flag-4",
    "query": "planted-query-5",
    "account": "planted-account-6",
    "logged": "ghp_plantedtoken7abcdefghij",
    "stderr": "sk-plantedkey8abcdefghijkl",
    "service": "planted-service-9",
    "embedder": "planted-embedder-10",
    "project": "planted-project-11",
}


def test_the_archive_contains_what_is_needed_and_no_planted_secret(
    command: Command, folder: Path
) -> None:
    """Issue: a redacted support archive."""
    log = folder / "toolgate.log"
    log.write_text(
        f"call with token={SECRETS['logged']} and {SECRETS['env']}\n"
        f"Authorization: Bearer {SECRETS['header']}\n",
        encoding="utf-8",
    )
    config = (
        f"optimization = 'bm25'\n[log]\nfile = {json.dumps(str(log))}\n"
        + server_table("bad", "--dies", SMALL_SECRET=f"{SECRETS['stderr']} {SECRETS['env']}")
        + server_table("other", "--dies", "--api-key", SECRETS["argument"], TOKEN=SECRETS["env"])
        + server_table("third", "--dies", f"--password={SECRETS['flag']}")
        + "[server.web]\n"
        + f"url = 'http://user:{SECRETS['account']}@127.0.0.1:9/mcp?key={SECRETS['query']}'\n"
        + "[server.api]\nurl = 'http://127.0.0.1:9/mcp'\n"
        + f"headers = {{ Authorization = 'Bearer {SECRETS['header']}' }}\n"
        + "[server.missing]\ncommand = 'no-such-program'\n"
        + f"[search.options.cloud]\nurl = 'http://x'\ntoken = '{SECRETS['service']}'\n"
        + f"[search]\nembedder_options = {{ key = '{SECRETS['embedder']}' }}\n"
        + "embedder = 'openai'\n"
        + f"[catalog_search]\ntokens = {{ team = ['{SECRETS['project']}'] }}\n"
    )
    (folder / "toolgate.toml").write_text(config, encoding="utf-8")
    done = command("doctor", "--bundle", "out/report.zip")
    assert done.status == FAILED
    with zipfile.ZipFile(folder / "out" / "report.zip") as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert parts.keys() == {
        "made_at.txt",
        "versions.json",
        "configuration.json",
        "doctor.json",
        "servers.json",
        "log.txt",
    }
    everything = "\n".join(parts.values())
    assert [name for name, secret in SECRETS.items() if secret in everything] == []
    assert json.loads(parts["configuration.json"])["serve"]["port"] == 7420
    assert "small_server.py" in parts["configuration.json"]
    servers = sorted(server["name"] for server in json.loads(parts["servers.json"]))
    assert servers == ["api", "bad", "missing", "other", "third", "web"]
    assert len(parts["log.txt"].splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are those of POSIX")
def test_the_archive_is_for_its_user_alone(command: Command, folder: Path) -> None:
    path = folder / "report.zip"
    path.write_bytes(b"")
    path.chmod(0o644)
    command("doctor", "--quick", "--bundle", str(path))
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_archive_is_written_even_when_the_configuration_is_broken(
    command: Command, folder: Path
) -> None:
    configure(folder, "[")
    assert command("doctor", "--bundle", "report.zip").status == FAILED
    with zipfile.ZipFile(folder / "report.zip") as archive:
        assert "doctor.json" in archive.namelist()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2", "password=***"),
        ('{"api_key": "abc"}', '{"api_key": "***"}'),
        ("postgresql://me:pw@host/db", "postgresql://***@host/db"),
        ("GITHUB_TOKEN: abc def", "GITHUB_TOKEN: *** def"),
        ("Bearer abcdefghijkl", "***"),
        ("a known-value b", "a *** b"),
        ("nothing here", "nothing here"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_in_texts(text: str, shown: str) -> None:
    spec = ServerSpec(name="x", kind="stdio", options={"env": {"A": "known-value"}})
    assert Scrubber([spec])(text) == shown


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes as files")
def test_doctor_names_children_that_a_killed_gateway_left(command: Command, folder: Path) -> None:
    configure(folder, "[server.left]\ncommand = 'sleep'\nargs = ['3600.25']\n")
    shell = subprocess.run(
        ["sh", "-c", "sleep 3600.25 >/dev/null 2>&1 & echo $!"],
        capture_output=True,
        text=True,
        check=True,
    )
    pid = int(shell.stdout)
    try:
        done = command("doctor", "--quick")
        assert f"Process {pid} runs this server without a gateway." in done.out
        assert f"Stop it: kill {pid}" in done.out
    finally:
        os.kill(pid, signal.SIGKILL)


def test_doctor_says_whether_databases_can_be_read(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / "toolgate.toml").write_text(
        f'[connections.there]\nurl = "sqlite:///{tmp_path}/empty.db"\n'
        f'[connections.gone]\nurl = "sqlite:///{tmp_path}/s3cret.db"\n',
        encoding="utf-8",
    )

    done = command("--config", str(tmp_path / "toolgate.toml"), "doctor")

    assert "Readable (sqlite): " in done.out
    assert "the file is not there or may not be read" in done.out
    assert "s3cret" not in done.out


def test_overrides_that_cannot_be_applied_are_warnings(
    command: Command, serve: Serve, folder: Path
) -> None:
    table = (
        "\n[server.small.tools.gone]\nhide = true\n"
        '[server.small.tools.add_numbers.parameters.a]\nvalue = "one"\n'
        "[server.small.tools.fail]\ncache_s = 60\n"
    )
    file = folder / "toolgate.toml"
    file.write_text(file.read_text("utf-8") + table, encoding="utf-8")
    serve()
    command("servers", "list")  # waits until the server is listed
    checks = command("doctor", "--json").json["checks"]
    told = [check for check in checks if check["name"] == "overrides small"]
    assert {check["state"] for check in told} == {"warning"}
    text = " ".join(check["found"] for check in told)
    assert "[server.small.tools.gone] overrides a tool that the server does not offer." in text
    assert "sets 'a' to str; the tool takes number" in text
    assert "[server.small.tools.fail] has cache_s." in text


def test_a_server_that_works_is_tested_without_asking_its_proxy(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.setblocking(False)
        for variable in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        configure(folder, server_table("good"))
        assert not command("servers", "test", "good").status
        with pytest.raises(BlockingIOError):
            proxy.accept()
