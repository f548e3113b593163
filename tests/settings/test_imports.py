"""Files of other clients are understood as they are; a wrong entry stops no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolgate.errors import SettingError
from toolgate.settings import Settings, is_toolgate, load, server_name

ENVIRON = {"HOME": "/home/ada", "TOKEN": "t0k"}


def imported(folder: Path, text: str, name: str = "mcp.json") -> Settings:
    """The settings that importing a file with this text gives."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return load(imports=[name], cwd=folder, environ=ENVIRON)


SHAPES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Claude Desktop": (
        "claude_desktop_config.json",
        '{"mcpServers": {"s": {"command": "uvx", "args": ["mcp-server-git"]}}}',
        {"command": "uvx", "args": ["mcp-server-git"], "env": {}},
    ),
    "Cursor with comments": (
        "mcp.json",
        '{ // mine\n "mcpServers": { "s": { "url": "https://h//mcp", /* key */\n'
        ' "headers": {"X": "${env:TOKEN}",}, }, } }',
        {"url": "https://h//mcp", "headers": {"X": "t0k"}},
    ),
    "VS Code": (
        "code/mcp.json",
        '{"inputs": [{"id": "token"}], "servers": {"s": {"type": "http", "url": "https://h/",'
        ' "headers": {"Authorization": "Bearer ${input:token}"}}}}',
        {"url": "https://h/", "headers": {"Authorization": "Bearer t0k"}},
    ),
    "VS Code, older": (
        "settings.json",
        '{"editor.tabSize": 2, "mcp": {"servers": {"s": {"command": "x", "env": {"A": null}}}}}',
        {"command": "x", "args": [], "env": {}},
    ),
    "VS Code, in a project": (
        ".vscode/mcp.json",
        '{"servers": {"s": {"command": "x", "args": ["${workspaceFolder}/a"]}}}',
        {"command": "x", "args": ["{folder}/a"], "env": {}, "cwd": "{folder}"},
    ),
    "Claude Code, in a project": (
        ".mcp.json",
        '{"mcpServers": {"s": {"type": "stdio", "command": "./x", "args": ["${NO:-a}"]}}}',
        {"command": "{folder}/x", "args": ["a"], "env": {}, "cwd": "{folder}"},
    ),
    "Windsurf": (
        "mcp_config.json",
        '{"mcpServers": {"s": {"serverUrl": "https://h/mcp", "disabledTools": []}}}',
        {"url": "https://h/mcp", "headers": {}},
    ),
    "Zed": (
        "zed/settings.json",
        '{"theme": "One", "context_servers": {"s": {"source": "custom", "command": "x"}}}',
        {"command": "x", "args": [], "env": {}},
    ),
    "Zed, older": (
        "zed/settings.json",
        '{"context_servers": {"s": {"command": {"path": "x", "args": ["a"], "env": null}}}}',
        {"command": "x", "args": ["a"], "env": {}},
    ),
    "Cline": (
        "cline_mcp_settings.json",
        '{"mcpServers": {"s": {"type": "streamableHttp", "url": "https://h/", "timeout": 90,'
        ' "disabled": false, "autoApprove": ["a"]}}}',
        {"url": "https://h/", "headers": {}},
    ),
    "Gemini CLI": (
        ".gemini/settings.json",
        '{"mcpServers": {"s": {"httpUrl": "https://h/sse", "headers": {"A": "Bearer $TOKEN"},'
        ' "timeout": 90000, "trust": true}}}',
        {"url": "https://h/sse", "headers": {"A": "Bearer t0k"}},
    ),
    "Codex over HTTP": (
        "config.toml",
        '[mcp_servers.s]\nurl = "https://h/"\nbearer_token_env_var = "TOKEN"\n'
        'tool_timeout_sec = 90\nhttp_headers = { A = "1" }\nenv_http_headers = { B = "TOKEN" }',
        {
            "url": "https://h/",
            "headers": {"A": "1", "B": "t0k", "Authorization": "Bearer t0k"},
        },
    ),
    "Codex": (
        "config.toml",
        'model = "m"\n[mcp_servers.s]\ncommand = "x"\nenv_vars = ["TOKEN", "NOT_SET"]\n'
        "[mcp_servers.s.env]\nA = 'b'",
        {"command": "x", "args": [], "env": {"TOKEN": "t0k", "A": "b"}},
    ),
    "one list of words": (
        "any.json",
        '{"mcpServers": {"s": {"command": ["npx", "-y", "x"], "args": [5]}}}',
        {"command": "npx", "args": ["-y", "x", "5"], "env": {}},
    ),
    "nothing but servers": (
        "any.json",
        '{"s": {"command": "x"}}',
        {"command": "x", "args": [], "env": {}},
    ),
}


@pytest.mark.parametrize(("name", "text", "options"), SHAPES.values(), ids=SHAPES)
def test_the_file_of_each_client_is_read_as_it_is(
    name: str, text: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Shapes as the clients' own documentation shows them."""
    (server,) = imported(tmp_path, text, name).servers
    assert (server.name, server.problem, server.enabled) == ("s", "", True)
    assert server.trust is True
    expected = json.loads(json.dumps(options).replace("{folder}", str(tmp_path)))
    assert server.options == expected
    assert server.timeout_s in {60, 90}


def test_timeouts_keep_their_meaning(tmp_path: Path) -> None:
    for name in ("cline_mcp_settings.json", ".gemini/settings.json"):
        (server,) = imported(
            tmp_path, SHAPES["Cline" if "cline" in name else "Gemini CLI"][1], name
        ).servers
        assert server.timeout_s == 90


def test_one_wrong_entry_stops_no_other(tmp_path: Path) -> None:
    settings = imported(
        tmp_path,
        '{"mcpServers": {\n"bad": {"args": []},\n"worse": 5,\n"unset": {"command": "${NOT_SET}"},\n'
        '"odd": {"command": "x", "args": {"a": 1}},\n"good": {"command": "x"}\n}}',
    )
    problems = {
        server.name: server.problem.replace(f"{tmp_path}/", "") for server in settings.servers
    }
    assert problems == {
        "bad": "mcp.json, line 2: mcpServers.bad has no command, url or python. Expected: one of "
        "command (a program), url (an address), python (an object). Add what is missing, or "
        "remove the server.",
        "unset": "mcp.json, line 4: server 'unset' needs the variable NOT_SET, which is not set. "
        "Set NOT_SET in the environment of Toolgate, write ${NOT_SET:-DEFAULT}, write "
        "${secret:NOT_SET} and store it (toolgate credentials set unset --secret NOT_SET), or "
        "disable the server.",
        "odd": "mcp.json, line 5: mcpServers.odd.args is a table. Expected: a list. Correct it "
        "there.",
        "good": "",
    }
    assert [server.enabled for server in settings.servers] == [False, False, False, True]
    assert any("'worse' is not a server" in notice for notice in settings.notices)


def test_what_only_an_editor_knows_is_named(tmp_path: Path) -> None:
    settings = imported(
        tmp_path,
        '{"servers": {"a": {"command": "${workspaceFolder}/x"}, "b": {"command": "${command:y}"}}}',
    )
    a, b = settings.servers
    assert "uses ${workspaceFolder}, and no folder is open here" in a.problem
    assert "uses ${command:y}, which only its editor can fill in" in b.problem


BROKEN = {
    "cut off": (
        '{\n "mcpServers": {\n',
        r"mcp\.json, line 3, column 1: this is not valid JSON: expecting property name enclosed in "
        r"double quotes\. Correct the JSON there\.",
    ),
    "comment never ends": ('{} /* "', r"line 1, column 4: this is not valid JSON: extra data"),
    "no object": ("[1]", r'mcp\.json is no JSON object\. Expected: { "mcpServers": { … } }\.'),
    "too deep": ("[" * 100_000, r"mcp\.json is nested too deeply to be read\."),
    "number without end": (f'{{"a": {"9" * 5000}}}', r"this is not valid JSON"),
    "name twice": (
        '{"mcpServers": {\n"a": {"command": "x"},\n"a": {"command": "y"}}}',
        r"mcp\.json, line 3: the server 'a' is defined twice in this file\.",
    ),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=message):
        imported(tmp_path, text)


def test_a_name_in_two_files_is_an_error_that_names_both_places(tmp_path: Path) -> None:
    """Our decision 12."""
    (tmp_path / "toolgate.toml").write_text('import = ["a.json"]\n[server.x]\ncommand = "1"')
    (tmp_path / "a.json").write_text('{"mcpServers": {\n"x": {"command": "2"}}}')
    with pytest.raises(SettingError) as caught:
        load(cwd=tmp_path, environ=ENVIRON)
    assert str(caught.value).replace(f"{tmp_path}/", "") == (
        "The server name 'x' is used twice: in toolgate.toml, line 2, and in a.json, line 2. Each "
        "name is allowed once. Rename or remove one; in an imported file "
        'import = [{ file = "…", rename = { "x" = "x-2" } }] does that.'
    )


def test_equal_servers_of_two_imported_files_are_one(tmp_path: Path) -> None:
    same = '{"mcpServers": {"x": {"command": "1"}}}'
    (tmp_path / "a.json").write_text(same)
    (tmp_path / "b.json").write_text(same)
    settings = load(imports=["a.json", "b.json"], cwd=tmp_path, environ=ENVIRON)
    assert [server.name for server in settings.servers] == ["x"]
    assert settings.notices == (
        f"{tmp_path}/b.json, line 1: server 'x' equals the one in {tmp_path}/a.json, line 1.",
    )


def test_an_import_can_skip_choose_and_rename(tmp_path: Path) -> None:
    names = ", ".join(f'"{name}": {{"command": "{name}"}}' for name in "abc")
    (tmp_path / "x.json").write_text(f'{{"mcpServers": {{{names}}}}}')
    (tmp_path / "toolgate.toml").write_text(
        'import = [{ file = "x.json", skip = ["a"], rename = { b = "bee" } },\n'
        '{ file = "x.json", only = ["a", "z"] }]'
    )
    settings = load(cwd=tmp_path, environ=ENVIRON)
    assert [(server.name, server.title) for server in settings.servers] == [
        ("bee", "b"),
        ("c", ""),
        ("a", ""),
    ]
    assert settings.notices == (
        f"{tmp_path}/toolgate.toml, line 1: {tmp_path}/x.json has no server 'z'.",
    )


def test_the_servers_of_one_project_of_claude_code_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "claude.json").write_text(
        '{"mcpServers": {"u": {"command": "x"}},'
        ' "projects": {"/work/p": {"mcpServers": {"p": {"command": "y"}}}}}'
    )
    (tmp_path / "toolgate.toml").write_text(
        'import = ["claude.json", { file = "claude.json", project = "/work/p" }]'
    )
    u, p = load(cwd=tmp_path, environ=ENVIRON).servers
    assert (u.name, p.name, p.options["cwd"]) == ("u", "p", "/work/p")


def test_another_toolgate_toml_can_be_imported(tmp_path: Path) -> None:
    text = '[server.a]\ncommand = "x"\ntimeout_s = 5'
    (server,) = imported(tmp_path, text, "team.toml").servers
    assert (server.name, server.timeout_s) == ("a", 5)


TOOLGATE: dict[str, dict[str, Any]] = {
    "itself": {"command": "toolgate", "args": ["stdio"]},
    "by path": {"command": "/home/a/.venv/bin/toolgate"},
    "on Windows": {"command": "C:\\Users\\a\\toolgate.exe"},
    "uvx": {"command": "uvx", "args": ["--python", "3.12", "toolgate-mcp@latest", "stdio"]},
    "uvx from": {"command": "uvx", "args": ["--from", "toolgate-mcp[all]==1.0", "toolgate"]},
    "uvx from a folder": {
        "command": "/home/a/.local/bin/uvx",
        "args": ["--from", "toolgate-mcp[sql] @ file:///src/toolgate", "toolgate-mcp", "stdio"],
    },
    "second command": {"command": "/home/a/.local/bin/toolgate-mcp", "args": ["stdio"]},
    "uv run": {"command": "uv", "args": ["run", "--directory", "/src", "toolgate", "stdio"]},
    "uv tool": {"command": "/opt/uv", "args": ["tool", "run", "toolgate-mcp"]},
    "pipx": {"command": "pipx", "args": ["run", "toolgate-mcp", "stdio"]},
    "npx": {"command": "npx", "args": ["-y", "toolgate"]},
    "cmd": {"command": "cmd", "args": ["/c", "uvx", "toolgate-mcp", "stdio"]},
    "module": {"command": "python3.12", "args": ["-m", "toolgate", "stdio"]},
    "shell": {"command": "sh", "args": ["-c", "exec toolgate stdio"]},
    "container": {"command": "docker", "args": ["run", "-i", "--rm", "ghcr.io/x/toolgate:1.0"]},
    "address": {"url": "http://127.0.0.1:7420/mcp"},
    "address by name": {"serverUrl": "http://localhost:7420/mcp/"},
    "remote": {"command": "npx", "args": ["-y", "mcp-remote@latest", "http://localhost:7420/mcp"]},
    "words": {"command": ["toolgate", "stdio"]},
}

OTHERS: dict[str, dict[str, Any]] = {
    "a folder of that name": {"command": "npx", "args": ["-y", "server-filesystem", "/x/toolgate"]},
    "a module with an argument": {"command": "python", "args": ["-m", "server", "toolgate"]},
    "another port": {"url": "http://127.0.0.1:7421/mcp"},
    "another machine": {"url": "http://example.org:7420/mcp"},
    "a longer name": {"command": "toolgate-server"},
    "a bad address": {"url": "http://[7420"},
    "nothing": {},
    "no words": {"command": [], "args": 5},
    "an open quote": {"command": "sh", "args": ["-c", "'toolgate"]},
}


@pytest.mark.parametrize("entry", TOOLGATE.values(), ids=TOOLGATE)
def test_toolgate_itself_is_never_taken_over(entry: dict[str, Any], tmp_path: Path) -> None:
    """Our decision 34."""
    assert is_toolgate(entry)
    settings = imported(tmp_path, json.dumps({"mcpServers": {"tg": entry}}))
    assert settings.servers == ()
    assert settings.notices == (
        f"{tmp_path}/mcp.json, line 1: server 'tg' is Toolgate itself and is left out.",
    )


def test_what_a_zed_extension_starts_is_left_out_with_the_reason(tmp_path: Path) -> None:
    entry = {"source": "extension", "settings": {"database_url": "postgres://x"}}
    settings = imported(tmp_path, json.dumps({"context_servers": {"pg": entry}}))
    assert settings.servers == ()
    (notice,) = settings.notices
    assert "server 'pg' is left out: a Zed extension starts it" in notice


@pytest.mark.parametrize("entry", OTHERS.values(), ids=OTHERS)
def test_what_only_looks_like_toolgate_is_taken(entry: dict[str, Any]) -> None:
    assert not is_toolgate(entry)


NAMES = {
    "github": "github",
    "a.b-c_d": "a.b-c_d",
    "x" * 32: "x" * 32,
    "My GitHub": "My-GitHub-4fcf40",
    "a__b": "a_b-63e5c1",
    "Ünïcödé": "Unicode-39af95",
    "天气": "server-4d9473",
    "": "server-e3b0c4",
}


def test_names_that_do_not_fit_are_mapped_by_themselves_alone() -> None:
    """Our decision 16: a changed name depends on no other server."""
    assert {name: server_name(name) for name in NAMES} == NAMES


def test_a_changed_name_is_shown_and_the_original_kept(tmp_path: Path) -> None:
    settings = imported(tmp_path, '{"mcpServers": {"My GitHub": {"command": "x"}}}')
    assert (settings.servers[0].name, settings.servers[0].title) == (
        "My-GitHub-4fcf40",
        "My GitHub",
    )
    assert settings.notices == (
        f"{tmp_path}/mcp.json, line 1: server 'My GitHub' is called 'My-GitHub-4fcf40' here.",
    )


def test_what_claude_code_denies_holds_for_an_import_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rules stand in files of their own, which are watched like the imported one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    rules = tmp_path / ".claude" / "settings.json"
    rules.parent.mkdir()
    rules.write_text('{"permissions": {"deny": ["mcp__db__drop"]}}', encoding="utf-8")
    (tmp_path / ".claude.json").write_text('{"mcpServers": {"db": {"command": "x"}}}', "utf-8")
    config = tmp_path / "toolgate.toml"
    config.write_text('import = ["~/.claude.json"]\n', encoding="utf-8")
    loaded = load(config)
    (server,) = loaded.servers
    assert server.tool_permissions == {"drop": False}
    assert rules in loaded.files


def test_what_opencode_denies_holds_for_an_import_too(tmp_path: Path) -> None:
    (tmp_path / "opencode.json").write_text(
        '{"mcp": {"db": {"type": "local", "command": ["x"]}}, "tools": {"db_drop": false}}', "utf-8"
    )
    config = tmp_path / "toolgate.toml"
    config.write_text('import = ["opencode.json"]\n', encoding="utf-8")
    (server,) = load(config).servers
    assert server.tool_permissions == {"drop": False}
