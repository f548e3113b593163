"""`toolgate config` and `toolgate paths`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Run


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The `toolgate.toml` of the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "toolgate.toml"


def test_a_good_configuration_is_fine(config: Path, toolgate: Run) -> None:
    config.write_text(
        '[server.a]\ncommand = "x"\n[server.b]\ncommand = "y"\nenabled = false', encoding="utf-8"
    )
    done = toolgate("config", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Read {config}\n2 servers, 1 enabled.\n"


def test_no_configuration_is_fine(config: Path, toolgate: Run) -> None:
    done = toolgate("config", "check")
    assert done.returncode == 0
    assert done.stdout.startswith("There is no configuration file; defaults apply.\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serv]\nport = 1", "line 1: the key 'serv' does not exist."),
        ("mode = ", "line 1, column 8: this is not valid TOML"),
        ('[server.a]\ncommand = "${NOT_SET}"', "server 'a' needs the variable NOT_SET"),
    ],
    ids=["unknown key", "malformed", "missing variable"],
)
def test_what_is_wrong_is_named_and_ends_with_2(
    text: str, message: str, config: Path, toolgate: Run
) -> None:
    config.write_text(text, encoding="utf-8")
    done = toolgate("config", "check")
    assert done.returncode == 2
    assert message in done.stderr
    told = toolgate("config", "check", "--json")
    assert told.returncode == 2
    answer = json.loads(told.stdout)
    assert answer["ok"] is False
    assert message in " ".join([answer["error"] or "", *answer["problems"]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('optimization = "hybird"', "search 'hybird' does not exist."),
        ('optimization = ""', "search '' does not exist."),
        ('optimization = "cloud"', "Option 'url' of search 'cloud' is ''."),
        ('[project.a]\noptimization = "x"', "Set project.a.optimization to one of these"),
        ('[search]\nembedder = "x"', "embedder 'x' does not exist."),
        (
            "[search]\nembedder_options = { x = 1 }",
            "Option 'x' of embedder 'bundled' does not exist.",
        ),
        ('[search]\nselector = "x"', "search 'x' does not exist."),
        ("[search.options.hybrid]\ndense_weight = 2", "Option 'dense_weight' of search 'hybrid'"),
        (
            f'[catalog_search]\nstrategy = "x"\ntokens = {{ a = ["{"t" * 16}"] }}',
            "Set catalog_search.strategy to one of these",
        ),
        ('[documents]\nreranker = "x"', "Available: bundled, http, onnx. Set documents.reranker"),
        ("[documents.reranker_options]\nx = 1", "Option 'x' of reranker 'bundled' does not exist."),
        ('[programs]\nsandbox = "x"', "sandbox 'x' does not exist. Available: monty."),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(
    text: str, message: str, config: Path, command: Command
) -> None:
    """By the check of the configuration, and with all else that is checked."""
    config.write_text(text, encoding="utf-8")
    done = command("config", "check")
    assert done.status == 2
    assert message in done.err
    assert done.err.endswith("\n1 problem found.\n")
    report = command("doctor", "--quick", "--json").json
    problems = [check for check in report["checks"] if check["state"] == "problem"]
    # Another gateway on this machine may use the port.
    assert [check["name"] for check in problems if check["name"] != "port"] == ["configuration"]
    assert message in f"{problems[0]['found']} {problems[0]['hint']}"


@pytest.mark.parametrize(
    "text", ['[documents]\nreranker = "x"', '[programs]\nsandbox = "x"', 'optimization = "x"']
)
def test_a_gateway_does_not_start_with_a_plugin_that_does_not_exist(
    text: str, config: Path, command: Command
) -> None:
    config.write_text(text, encoding="utf-8")
    done = command("serve")
    assert done.status == 2
    assert "'x' does not exist. Available: " in done.err


def test_everything_that_is_wrong_is_named_at_once(config: Path, toolgate: Run) -> None:
    (config.parent / "bad.json").write_text("{ bad", encoding="utf-8")
    config.write_text(
        """\
mod = "all"
pinned = ["x"]
meta_tools = ["y"]
import = ["gone.json", { fil = "z" }, "bad.json", 3]
[serve]
port = "7420"
drain_s = -1
[server.a]
comand = "x"
timeout_s = "60"
[server.b]
command = "y"
args = [["z"]]
[server.B]
command = "y"
[server.c]
args = []
""",
        encoding="utf-8",
    )
    expected = [
        "line 1: the key 'mod' does not exist.",
        "line 6: serve.port is a text.",
        "line 7: serve.drain_s is -1.",
        "line 9: the key 'comand' in [server.a] does not exist.",
        "line 10: server.a.timeout_s is a text.",
        "line 13: server.b.args.0 is a list.",
        "Servers 'b' and 'B' have names that clients cannot distinguish",
        "line 16: server.c has no command, url or python.",
        "line 4: the key 'fil' in [import.1] does not exist.",
        "line 4: import.3 is a whole number.",
        "gone.json' does not exist.",
        "bad.json, line 1, column 3: this is not valid JSON",
        "meta_tools contains 'y'.",
        "pinned contains 'x'.",
    ]
    done = toolgate("config", "check")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == len(expected), done.stderr
    for line, part in zip(lines, expected, strict=True):
        assert line.startswith("toolgate: ")
        assert part in line
    errors = json.loads(toolgate("config", "check", "--json").stdout)["errors"]
    assert [f"toolgate: {error}" for error in errors] == lines


def test_a_configuration_that_is_up_to_date_is_not_written(config: Path, toolgate: Run) -> None:
    config.write_text('mode = "all"', encoding="utf-8")
    done = toolgate("config", "migrate")
    assert (done.returncode, done.stdout) == (0, f"{config} is up to date.\n")
    assert list(config.parent.iterdir()) == [config]


def test_without_a_configuration_there_is_nothing_to_migrate(config: Path, toolgate: Run) -> None:
    assert toolgate("config", "migrate").returncode == 3


def test_paths_name_every_place_also_when_the_configuration_is_broken(
    config: Path, toolgate: Run
) -> None:
    config.write_text("mode = ", encoding="utf-8")
    done = toolgate("paths", "--json")
    assert done.returncode == 0
    home = Path.home()
    assert json.loads(done.stdout) == {
        "config_file": str(config),
        "config_folder": str(home / ".config" / "toolgate"),
        "data_folder": str(home / ".local" / "share" / "toolgate"),
        "run_folder": str(home / ".local" / "share" / "toolgate" / "run"),
        "store": f"sqlite:///{home}/.local/share/toolgate/toolgate.db",
        "log_file": None,
        "files": [],
    }
    assert f"Configuration\t{config}" in toolgate("paths").stdout


def test_a_password_of_the_store_is_not_shown(config: Path, toolgate: Run) -> None:
    config.write_text('[store]\nurl = "postgresql://ada:hunter2@db/t"', encoding="utf-8")
    assert "hunter2" not in toolgate("paths").stdout
