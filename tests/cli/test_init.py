"""`toolgate init` as people run it: what it finds, what it writes, and how it is taken back."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from toolgate.settings import load

CURSOR = """\
{
  // my servers
  "mcpServers": {
    "github": {
      "command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_hunter2" },
    },
    "files": { "command": "npx", "args": ["-y", "server-filesystem", "/notes"] },
  },
  "other": [1, 2,], // mine
}
"""

FILES = {
    ".cursor/mcp.json": CURSOR,
    ".config/Claude/claude_desktop_config.json": json.dumps(
        {
            "mcpServers": {
                "files": {"command": "npx", "args": ["-y", "server-filesystem", "/notes"]},
                "github": {"url": "https://api.githubcopilot.com/mcp/"},
            }
        }
    ),
    ".config/Code/User/mcp.json": json.dumps(
        {
            "inputs": [{"id": "db-password", "type": "promptString"}],
            "servers": {
                "My DB": {"command": "db", "env": {"PASSWORD": "${input:db-password}"}},
                "toolgate": {"command": "uvx", "args": ["toolgate-mcp", "stdio"]},
            },
        }
    ),
    ".claude.json": json.dumps(
        {
            "projects": {
                "/elsewhere": {"mcpServers": {"far": {"command": "far"}}},
                "HOME/work": {
                    "mcpServers": {"near": {"type": "stdio", "command": "near", "env": {}}}
                },
            }
        }
    ),
    ".codex/config.toml": '# mine\n[mcp_servers.time]\ncommand = "uvx"\nargs = ["time"]\n',
    ".gemini/settings.json": "{ broken",
    "work/.git/HEAD": "",
    "work/.mcp.json": json.dumps({"mcpServers": {"local": {"command": "./serve"}}}),
}


@pytest.fixture
def home(clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of somebody with several clients, standing in a project of theirs."""
    found = Path.home()
    for name, text in FILES.items():
        path = found / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("HOME", str(found)), encoding="utf-8")
    monkeypatch.chdir(found / "work")
    return found


def digests(home: Path) -> dict[str, str]:
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


def config_of(home: Path) -> Path:
    return home / ".config" / "toolgate" / "toolgate.toml"


def test_a_dry_run_shows_what_was_found_without_secrets_and_writes_nothing(
    home: Path, toolgate: Run
) -> None:
    before = digests(home)
    done = toolgate("init", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["Client", "File", "Server", "Starts", "Remark"]
    assert [(row[0], row[2], row[4]) for row in rows[1:]] == [
        ("Claude Desktop", "files", ""),
        ("Claude Desktop", "github", ""),
        ("Claude Code", "far", "skipped; belongs to /elsewhere"),
        ("Claude Code", "near", ""),
        ("Cursor", "github", "called github-cursor here"),
        ("Cursor", "files", "skipped; equals files above"),
        (
            "VS Code",
            "My DB",
            "its input 'db-password' is now ${env:DB_PASSWORD}; called My-DB here; needs "
            "DB_PASSWORD, which is not set",
        ),
        ("VS Code", "toolgate", "skipped; Toolgate itself"),
        ("Codex", "time", ""),
        ("Claude Code", "local", ""),
    ]
    assert "settings.json, line 1, column 3: this is not valid JSON" in done.stderr
    assert "Would write: ~/.config/toolgate/toolgate.toml" in done.stderr
    assert digests(home) == before


def test_without_a_terminal_nothing_is_written_unless_told_to(home: Path, toolgate: Run) -> None:
    before = digests(home)
    done = toolgate("init")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "toolgate: This would write ~/.config/toolgate/toolgate.toml. Add --yes to do it, or "
        "--dry-run for a preview."
    )
    assert digests(home) == before


def test_servers_are_copied_and_no_file_of_a_client_is_touched(home: Path, toolgate: Run) -> None:
    before = digests(home)
    done = toolgate("init", "--no-check", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Set it where Toolgate runs: export DB_PASSWORD=VALUE" in done.stdout
    assert "Stored 1 secret encrypted, outside toolgate.toml" in done.stdout
    assert {name: digest for name, digest in digests(home).items() if name in before} == before
    assert config_of(home).stat().st_mode & 0o777 == 0o600
    servers = {server.name: server for server in load(config_of(home)).servers}
    assert list(servers) == [
        "files", "github", "near", "github-cursor", "My-DB", "time", "local",
    ]  # fmt: skip
    assert "hunter2" not in config_of(home).read_text()
    assert servers["github-cursor"].options["env"] == {}
    assert servers["local"].options["command"] == str(home / "work" / "serve")
    assert servers["near"].options["cwd"] == str(home / "work")
    assert servers["My-DB"].problem


@pytest.mark.parametrize("again", ["--yes", "--by-reference"], ids=["copies", "references"])
@pytest.mark.parametrize("first", ["--yes", "--by-reference"], ids=["copied", "imported"])
def test_a_second_run_finds_nothing_to_do(
    first: str, again: str, home: Path, toolgate: Run
) -> None:
    assert toolgate("init", "--no-check", "--yes", first).returncode == 0
    before = digests(home)
    done = toolgate("init", "--no-check", "--yes", again)
    assert done.returncode == 0
    assert "Nothing to do" in done.stderr
    assert digests(home) == before


def test_servers_can_be_imported_by_reference(home: Path, toolgate: Run) -> None:
    assert toolgate("init", "--no-check", "--yes", "--by-reference").returncode == 0
    assert "hunter2" not in config_of(home).read_text()
    assert config_of(home).read_text().partition("version = 1\n")[2] == (
        "import = [\n"
        '  "~/.config/Claude/claude_desktop_config.json",\n'
        f'  {{ file = "~/.claude.json", project = "{home}/work" }},\n'
        '  { file = "~/.cursor/mcp.json", skip = ["files"], '
        'rename = { github = "github-cursor" } },\n'
        '  { file = "~/.config/Code/User/mcp.json", rename = { "My DB" = "My-DB" } },\n'
        '  "~/.codex/config.toml",\n'
        '  "~/work/.mcp.json",\n'
        "]\n"
    )
    names = [server.name for server in load(config_of(home)).servers]
    assert names == ["files", "github", "near", "github-cursor", "My-DB", "time", "local"]


def test_an_existing_configuration_is_added_to_and_only_force_replaces_it(
    home: Path, toolgate: Run
) -> None:
    config_of(home).parent.mkdir(parents=True)
    config_of(home).write_text('# mine\nmode = "all"\n[server.github]\ncommand = "own"\n')
    assert toolgate("init", "--no-check", "--yes").returncode == 0
    text = config_of(home).read_text()
    assert text.startswith('# mine\nmode = "all"\n[server.github]\ncommand = "own"\n\n# from ')
    names = [server.name for server in load(config_of(home)).servers]
    assert names[:3] == ["github", "files", "github-claude-desktop"]
    assert toolgate("init", "--no-check", "--yes", "--force").returncode == 0
    assert "# mine" not in config_of(home).read_text()
    assert toolgate("init", "--undo", "--yes").returncode == 0
    assert config_of(home).read_text() == (
        '# mine\nmode = "all"\n[server.github]\ncommand = "own"\n'
    )


def test_writing_back_puts_toolgate_in_place_and_undo_restores_every_byte(
    home: Path, toolgate: Run
) -> None:
    before = digests(home)
    done = toolgate("init", "--no-check", "--yes", "--write-back")
    assert done.returncode == 0, done.stderr
    cursor = (home / ".cursor" / "mcp.json").read_text()
    assert cursor.startswith('{\n  // my servers\n  "mcpServers": {\n    "toolgate": {\n')
    assert cursor.endswith('  "other": [1, 2,], // mine\n}\n')
    assert "npx" not in cursor
    backup = home / ".cursor" / "mcp.json.toolgate-backup"
    assert backup.read_text() == CURSOR
    claude = json.loads((home / ".claude.json").read_text())
    assert list(claude["mcpServers"]) == ["toolgate"]
    assert claude["projects"]["/elsewhere"] == {"mcpServers": {"far": {"command": "far"}}}
    assert (home / "work" / ".mcp.json").read_text() == FILES["work/.mcp.json"]
    assert len(load(config_of(home)).servers) == 7
    undone = toolgate("init", "--undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    kept = [name for name in digests(home) if name.startswith(".local/share/toolgate/")]
    assert {name: digest for name, digest in digests(home).items() if name not in kept} == before
    assert toolgate("init", "--undo", "--yes").returncode == 3


def test_lists_of_tools_are_carried_over_and_a_server_with_other_lists_stays_in_its_client(
    home: Path, toolgate: Run
) -> None:
    entry = {"command": "x", "disabledTools": ["drop"]}
    only(
        home,
        claude=json.dumps({"mcpServers": {"db": {"command": "x"}}}),
        cursor=json.dumps({"mcpServers": {"db": entry, "other": {**entry, "args": ["1"]}}}),
    )
    done = toolgate("init", "--no-check", "--yes", "--write-back")
    assert "'db' stays in Cursor: it allows other tools than db." in done.stderr
    assert "without these tools: drop" in done.stdout.replace("\n", " ")
    servers = {server.name: server for server in load(config_of(home)).servers}
    assert {name: dict(server.tool_permissions) for name, server in servers.items()} == {
        "db": {},
        "other": {"drop": False},
    }
    cursor = json.loads((home / ".cursor" / "mcp.json").read_text())
    assert list(cursor["mcpServers"]) == ["toolgate", "db"]


def test_what_one_client_has_disabled_does_not_replace_it_in_another(
    home: Path, toolgate: Run
) -> None:
    """The disabled copy was kept, and the enabled server was skipped as equal to it."""
    entries = {"db": {"command": "x", "disabled": True}, "old": {"command": "y", "disabled": True}}
    only(
        home,
        claude=json.dumps({"mcpServers": entries}),
        cursor=json.dumps({"mcpServers": {"db": {"command": "x"}}}),
    )
    done = toolgate("init", "--no-check", "--yes", "--write-back")
    assert done.returncode == 0, done.stderr
    told = done.stdout.replace("\n", " ")
    assert "skipped; equals db below" in told
    servers = {server.name: server.enabled for server in load(config_of(home)).servers}
    assert servers == {"db": True, "old": False}
    for path in (".config/Claude/claude_desktop_config.json", ".cursor/mcp.json"):
        assert list(json.loads((home / path).read_text())["mcpServers"]) == ["toolgate"]


def test_a_summary_says_what_the_imported_servers_lack(home: Path, toolgate: Run) -> None:
    entries = {
        "a": {"command": "sh"},
        "b": {"url": "https://h.example/mcp"},
        "c": {"command": "sh", "args": ["1"], "env": {"K": "${env:NOTION_TOKEN}"}},
        "d": {"command": "sh", "args": ["2"], "disabled": True},
        "e": {"command": "npx-not-here"},
        "f": {"command": "npx-not-here", "args": ["1"]},
    }
    only(home, cursor=json.dumps({"mcpServers": entries}))
    done = toolgate("init", "--no-check", "--yes")
    assert (
        "6 servers: 2 can start, 1 needs NOTION_TOKEN, 1 disabled, 2 need the program npx-not-here."
    ) in done.stdout.replace("\n", " ")
    assert "export NOTION_TOKEN=VALUE" in done.stdout.replace("\n", " ")


ENTRY = '"mine": { "command": "own", "args": [ "1" ], }, // kept as it is'

CLIENT_FILES = {
    ".continue/mcpServers/mine.json": "mcpServers",
    ".config/opencode/opencode.jsonc": "mcp",
    ".lmstudio/mcp.json": "mcpServers",
    ".kiro/settings/mcp.json": "mcpServers",
    ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json": (
        "mcpServers"
    ),
    ".config/amp/settings.json": "amp.mcpServers",
    ".gemini/antigravity/mcp_config.json": "mcpServers",
    ".config/Trae/User/mcp.json": "mcpServers",
    ".junie/mcp/mcp.json": "mcpServers",
}


@pytest.mark.parametrize(("name", "key"), CLIENT_FILES.items(), ids=CLIENT_FILES)
def test_toolgate_takes_the_place_of_servers_in_each_client_and_undo_restores_every_byte(
    name: str, key: str, home: Path, toolgate: Run
) -> None:
    only(home)
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f'{{\r\n\t"other": 1,\r\n\t"{key}": {{\r\n\t\t{ENTRY}\r\n\t}}\r\n}}'.encode())
    before = digests(home)
    assert toolgate("init", "--no-check", "--yes", "--write-back").returncode == 0
    written = json.loads(path.read_bytes())
    assert list(written) == ["other", key]
    assert list(written[key]) == ["toolgate"]
    assert [server.name for server in load(config_of(home)).servers] == ["mine"]
    assert toolgate("init", "--undo", "--yes").returncode == 0
    assert digests(home) == before


def test_project_files_are_written_back_only_when_asked(home: Path, toolgate: Run) -> None:
    assert (
        toolgate("init", "--no-check", "--yes", "--write-back", "--project-files").returncode == 0
    )
    local = json.loads((home / "work" / ".mcp.json").read_text())
    assert list(local["mcpServers"]) == ["toolgate"]


def test_undo_keeps_what_was_changed_since(home: Path, toolgate: Run) -> None:
    assert toolgate("init", "--no-check", "--yes", "--write-back").returncode == 0
    changed = home / ".cursor" / "mcp.json"
    changed.write_text('{"mcpServers": {"new": {"command": "x"}}}')
    done = toolgate("init", "--undo", "--yes")
    assert changed.read_text() == CURSOR
    kept = home / ".cursor" / "mcp.json.before-undo"
    assert kept.read_text() == '{"mcpServers": {"new": {"command": "x"}}}'
    assert f"was changed since; that version is kept as {kept}" in done.stdout


def test_references_and_write_back_exclude_each_other(home: Path, toolgate: Run) -> None:
    done = toolgate("init", "--no-check", "--yes", "--write-back", "--by-reference")
    assert done.returncode == 2
    assert "exclude each other" in done.stderr


def test_a_broken_configuration_is_not_written_over(home: Path, toolgate: Run) -> None:
    config_of(home).parent.mkdir(parents=True)
    config_of(home).write_text("mode = ")
    done = toolgate("init", "--no-check", "--yes")
    assert done.returncode == 2
    assert "line 1, column 8: this is not valid TOML" in done.stderr
    assert config_of(home).read_text() == "mode = "


def test_without_any_client_nothing_is_found(toolgate: Run, tmp_path: Path) -> None:
    done = toolgate("init", "--no-check", "--yes", HOME=str(tmp_path))
    assert done.returncode == 3
    assert "No MCP servers were found" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_answer_for_programs_has_no_secret(home: Path, toolgate: Run) -> None:
    done = toolgate("init", "--no-check", "--yes", "--json")
    assert "hunter2" not in done.stdout
    answer = json.loads(done.stdout)
    assert answer["written"] == [str(config_of(home))]
    states = {(one["client"], one["found_as"]): one["state"] for one in answer["servers"]}
    assert states["cursor", "files"] == "same"
    assert states["vscode", "toolgate"] == "self"
    assert states["claude-code", "far"] == "elsewhere"
    assert [file["error"] is None for file in answer["files"]].count(False) == 1


WORKSPACE = json.dumps(
    {
        "mcpServers": {
            "ws": {
                "command": "x",
                "args": ["${workspaceFolder}/a"],
                "envFile": "${workspaceFolder}/.env",
            },
            "good": {"command": "y"},
        }
    }
)


def only(home: Path, **files: str) -> None:
    """Leave these files of clients and no others: `cursor`, `claude`, `project`, `zed`."""
    for name in FILES:
        (home / name).unlink()
    places = {
        "cursor": ".cursor/mcp.json",
        "claude": ".config/Claude/claude_desktop_config.json",
        "project": "work/.cursor/mcp.json",
        "zed": ".config/zed/settings.json",
    }
    for client, text in files.items():
        (home / places[client]).parent.mkdir(parents=True, exist_ok=True)
        (home / places[client]).write_text(text, encoding="utf-8")


def test_what_only_an_editor_can_fill_in_is_copied_disabled_and_stays_in_its_client(
    home: Path, toolgate: Run
) -> None:
    only(home, cursor=WORKSPACE)
    done = toolgate("init", "--no-check", "--yes", "--write-back")
    assert done.returncode == 0, done.stderr
    reason = "only its client can resolve ${workspaceFolder}"
    assert f"'ws' stays in Cursor: {reason}." in done.stderr
    assert f"ws: disabled; {reason}.\n    -> Write the value in [server.ws]." in done.stdout
    assert f"# from Cursor, ~/.cursor/mcp.json; disabled: {reason}\n" in config_of(home).read_text()
    servers = {server.name: server for server in load(config_of(home)).servers}
    assert {name: server.enabled for name, server in servers.items()} == {
        "ws": False, "good": True,
    }  # fmt: skip
    cursor = json.loads((home / ".cursor" / "mcp.json").read_text())
    assert list(cursor["mcpServers"]) == ["toolgate", "ws"]
    assert toolgate("config", "check").returncode == 0


def test_a_second_run_takes_no_second_copy_of_what_only_an_editor_can_fill_in(
    home: Path, toolgate: Run
) -> None:
    only(home, cursor=WORKSPACE)
    assert toolgate("init", "--no-check", "--yes").returncode == 0
    before = digests(home)
    done = toolgate("init", "--no-check", "--yes")
    assert "Nothing to do" in done.stderr
    assert digests(home) == before


def test_a_server_that_toolgate_cannot_use_stays_in_its_client(home: Path, toolgate: Run) -> None:
    entries = {
        "a": {"command": "x", "env": {"K": "${env:NOT_SET}"}},
        "b": {"command": "y", "envFile": "/gone/.env"},
        "c": {"command": "z"},
    }
    only(home, cursor=json.dumps({"mcpServers": entries}))
    done = toolgate("init", "--no-check", "--yes", "--write-back")
    assert done.returncode == 0, done.stderr
    assert "'a' stays in Cursor: needs NOT_SET, which is not set." in done.stderr
    assert "'b' stays in Cursor: its env_file cannot be read." in done.stderr
    cursor = json.loads((home / ".cursor" / "mcp.json").read_text())
    assert list(cursor["mcpServers"]) == ["toolgate", "a", "b"]
    assert toolgate("init", "--no-check", "--yes", "--write-back", NOT_SET="now").returncode == 0
    cursor = json.loads((home / ".cursor" / "mcp.json").read_text())
    assert list(cursor["mcpServers"]) == ["toolgate", "b"]


def test_a_server_that_is_imported_stays_in_the_file_it_is_imported_from(
    home: Path, toolgate: Run
) -> None:
    only(home, cursor='{"mcpServers": {"a": {"command": "x"}}}')
    assert toolgate("init", "--no-check", "--yes", "--by-reference").returncode == 0
    before = digests(home)
    done = toolgate("init", "--no-check", "--yes", "--write-back")
    assert "'a' stays in Cursor: Toolgate imports it from this file." in done.stderr
    assert digests(home) == before


def test_relative_paths_of_a_copy_mean_the_same_as_in_their_own_file(
    home: Path, toolgate: Run
) -> None:
    entry = {"command": "./x", "cwd": "w", "envFile": ".env"}
    (home / ".cursor" / ".env").write_text("A=1")
    user = {"user": entry, "home": {"command": "y", "cwd": "~/w"}}
    only(
        home,
        cursor=json.dumps({"mcpServers": user}),
        project=json.dumps({"mcpServers": {"own": {"command": "z", "cwd": "~/w"}}}),
    )
    assert toolgate("init", "--no-check", "--yes").returncode == 0
    servers = {server.name: server.options for server in load(config_of(home)).servers}
    assert servers["user"] == {
        "command": str(home / ".cursor" / "x"),
        "args": [],
        "env": {"A": "1"},
        "cwd": str(home / ".cursor" / "w"),
    }
    assert servers["home"]["cwd"] == servers["own"]["cwd"] == str(home / "w")


def test_names_that_clients_cannot_tell_apart_are_changed(home: Path, toolgate: Run) -> None:
    only(
        home,
        claude='{"mcpServers": {"my-db": {"command": "x"}}}',
        cursor='{"mcpServers": {"My_DB": {"command": "y"}}}',
    )
    assert toolgate("init", "--no-check", "--yes").returncode == 0
    names = [server.name for server in load(config_of(home)).servers]
    assert names == ["my-db", "My_DB-cursor"]


def test_files_that_cannot_be_read_are_told_apart_from_files_without_servers(
    home: Path, toolgate: Run
) -> None:
    only(home, cursor='{\n"mcpServers": ["a"]}')
    done = toolgate("init", "--no-check", "--yes")
    assert done.returncode == 3
    assert "mcp.json, line 2: mcpServers is not an object with servers by name." in done.stderr
    assert "No MCP servers were found in the readable files of other clients" in done.stderr


@pytest.mark.parametrize(
    "entry",
    [
        '{"source": "extension", "enabled": true, "settings": {"database_url": "postgres://x"}}',
        '{"settings": {"github_personal_access_token": "secret"}}',
    ],
)
def test_a_server_of_a_zed_extension_is_skipped_with_what_to_do(
    entry: str, home: Path, toolgate: Run
) -> None:
    only(home, zed=f'{{"context_servers": {{"pg": {entry}, "t": {{"command": "uvx"}}}}}}')
    done = toolgate("init", "--no-check", "--yes", "--by-reference")
    shown = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    assert "pg skipped; a Zed extension starts it, and the file does not say how" in shown
    assert "toolgate add NAME -- COMMAND" in shown
    checked = toolgate("config", "check")
    assert checked.returncode == 0, checked.stderr
    assert "pg" not in checked.stdout + checked.stderr


def test_an_entry_that_is_no_server_is_shown_as_one_that_cannot_be_used(
    home: Path, toolgate: Run
) -> None:
    only(home, cursor='{"mcpServers": {"a": "x", "b": {"command": "y"}}}')
    assert "invalid; server.a has no command, url or python" in toolgate(
        "init", "--dry-run"
    ).stdout.replace("\n", " ")


def test_arguments_are_shown_as_the_program_gets_them(home: Path, toolgate: Run) -> None:
    path = home / ".cursor" / "mcp.json"
    entry = {"command": "serve", "args": ["--debug", True, 2, 0.5]}
    path.write_text(json.dumps({"mcpServers": {"flags": entry}}))
    done = toolgate("init", "--dry-run")
    assert "serve --debug true 2 0.5" in done.stdout
