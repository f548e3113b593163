"""Where the files of other clients lie, and how Toolgate is put in place of their servers."""

import json
import os
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolgate.errors import SettingError
from toolgate.settings.clients.supported import (
    CLIENTS,
    ClientFile,
    Launch,
    Machine,
    Platform,
    find,
    launch_of_this_program,
)
from toolgate.settings.clients.write_back import with_toolgate
from toolgate.settings.notations.jsonc import parse

LAUNCH = Launch(command="/opt/toolgate", args=("stdio",), search_path="/opt/bin:/usr/bin")

JSON = '{"KEY": {"s": {"command": "x"}}}'

PLACES: dict[Platform, list[tuple[str, str, str]]] = {
    "linux": [
        ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
        ("claude-code", ".claude.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".config/Code/User/mcp.json", "servers"),
        ("vscode", ".config/Code - Insiders/User/profiles/1a2b/mcp.json", "servers"),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"),
        ("zed", ".config/zed/settings.json", "context_servers"),
        (
            "cline",
            ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
            "cline_mcp_settings.json",
            "mcpServers",
        ),
        ("cline", ".cline/data/settings/cline_mcp_settings.json", "mcpServers"),
        ("gemini", ".gemini/settings.json", "mcpServers"),
        ("codex", ".codex/config.toml", ""),
        ("continue", ".continue/mcpServers/any.json", "mcpServers"),
        ("opencode", ".config/opencode/opencode.json", "mcp"),
        ("opencode", ".config/opencode/opencode.jsonc", "mcp"),
        ("lmstudio", ".lmstudio/mcp.json", "mcpServers"),
        ("lmstudio", ".cache/lm-studio/mcp.json", "mcpServers"),
        ("kiro", ".kiro/settings/mcp.json", "mcpServers"),
        (
            "roo",
            ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            "mcpServers",
        ),
        ("amp", ".config/amp/settings.json", "amp.mcpServers"),
        ("amp", ".config/amp/settings.jsonc", "amp.mcpServers"),
        ("antigravity", ".gemini/antigravity/mcp_config.json", "mcpServers"),
        ("trae", ".config/Trae/User/mcp.json", "mcpServers"),
        ("junie", ".junie/mcp/mcp.json", "mcpServers"),
        ("jetbrains", ".ai/mcp/mcp.json", "mcpServers"),
        ("copilot-jetbrains", ".config/github-copilot/intellij/mcp.json", "servers"),
    ],
    "darwin": [
        (
            "claude-desktop",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "mcpServers",
        ),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", "Library/Application Support/Code/User/mcp.json", "servers"),
        ("zed", ".config/zed/settings.json", "context_servers"),
        ("trae", "Library/Application Support/Trae/User/mcp.json", "mcpServers"),
        ("trae", "Library/Application Support/Trae CN/User/mcp.json", "mcpServers"),
        ("amp", ".config/amp/settings.json", "amp.mcpServers"),
    ],
    "win32": [
        (
            "claude-desktop",
            "AppData/Roaming/Claude/claude_desktop_config.json",
            "mcpServers",
        ),
        (
            "claude-desktop",
            "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/"
            "claude_desktop_config.json",
            "mcpServers",
        ),
        ("vscode", "AppData/Roaming/Code/User/mcp.json", "servers"),
        ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"),
        ("zed", "AppData/Roaming/Zed/settings.json", "context_servers"),
        ("trae", "AppData/Roaming/Trae/User/mcp.json", "mcpServers"),
        ("amp", ".config/amp/settings.json", "amp.mcpServers"),
        ("kiro", ".kiro/settings/mcp.json", "mcpServers"),
        ("copilot-jetbrains", "AppData/Local/github-copilot/intellij/mcp.json", "servers"),
    ],
}


def machine(home: Path, platform: Platform = "linux", **environ: str) -> Machine:
    return Machine(home=home, cwd=home / "work", environ=environ, platform=platform)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def the_file(found: list[ClientFile]) -> ClientFile:
    (file,) = found
    return file


@pytest.mark.parametrize(
    ("platform", "client", "name", "key"),
    [(platform, *place) for platform, places in PLACES.items() for place in places],
)
def test_the_file_of_each_client_is_found_on_each_platform(
    platform: Platform, client: str, name: str, key: str, tmp_path: Path
) -> None:
    """Places as the clients' documentation names them."""
    text = JSON.replace("KEY", key) if key else '[mcp_servers.s]\ncommand = "x"\n'
    path = put(tmp_path / name, text)
    file = the_file(find(machine(tmp_path, platform)))
    assert (file.client.name, file.path, file.scope) == (client, path, "user")
    assert [(server.name, server.config) for server in file.servers] == [("s", {"command": "x"})]


@pytest.mark.parametrize(
    ("variable", "name", "text"),
    [
        ("CLAUDE_CONFIG_DIR", ".claude.json", JSON.replace("KEY", "mcpServers")),
        ("CODEX_HOME", "config.toml", '[mcp_servers.s]\ncommand = "x"\n'),
        ("XDG_CONFIG_HOME", "zed/settings.json", JSON.replace("KEY", "context_servers")),
    ],
)
def test_a_folder_that_a_variable_moves_is_followed(
    variable: str, name: str, text: str, tmp_path: Path
) -> None:
    path = put(tmp_path / "moved" / name, text)
    found = find(machine(tmp_path, "linux", **{variable: str(tmp_path / "moved")}))
    assert the_file(found).path == path


def test_project_files_are_looked_for_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    repository = tmp_path / "work" / "repo"
    (repository / ".git").mkdir(parents=True)
    put(repository / ".vscode" / "mcp.json", '{"servers": {"a": {"command": "./x"}}}')
    put(repository / "deep" / ".mcp.json", '{"mcpServers": {"b": {"command": "y"}}}')
    put(tmp_path / "work" / ".mcp.json", '{"mcpServers": {"outside": {"command": "z"}}}')
    here = Machine(home=tmp_path, cwd=repository / "deep", environ={}, platform="linux")
    found = [(file.path, file.scope, file.servers[0].config) for file in find(here)]
    assert found == [
        (
            repository / "deep" / ".mcp.json",
            "project",
            {"command": "y", "cwd": str(repository / "deep")},
        ),
        (
            repository / ".vscode" / "mcp.json",
            "project",
            {"command": str(repository / "x"), "cwd": str(repository)},
        ),
    ]


@pytest.mark.parametrize(
    ("client", "name", "key"),
    [
        ("continue", ".continue/mcpServers/any.json", "mcpServers"),
        ("opencode", "opencode.json", "mcp"),
        ("opencode", ".opencode/opencode.json", "mcp"),
        ("kiro", ".kiro/settings/mcp.json", "mcpServers"),
        ("roo", ".roo/mcp.json", "mcpServers"),
        ("amp", ".amp/settings.json", "amp.mcpServers"),
        ("trae", ".trae/mcp.json", "mcpServers"),
        ("junie", ".junie/mcp/mcp.json", "mcpServers"),
        ("jetbrains", ".ai/mcp/mcp.json", "mcpServers"),
    ],
)
def test_servers_of_a_project_run_in_its_folder(
    client: str, name: str, key: str, tmp_path: Path
) -> None:
    put(tmp_path / "work" / name, JSON.replace("KEY", key))
    file = the_file(find(machine(tmp_path)))
    assert (file.client.name, file.scope) == (client, "project")
    assert file.servers[0].config == {"command": "x", "cwd": str(tmp_path / "work")}


def test_servers_of_opencode_are_read_and_toolgate_takes_their_place(tmp_path: Path) -> None:
    """Entries as https://opencode.ai/docs/mcp-servers shows them."""
    path = put(
        tmp_path / ".config" / "opencode" / "opencode.jsonc",
        """\
{
  "theme": "dark", // mine
  "mcp": {
    "local": {
      "type": "local", "command": ["bun", "x", "{env:PACKAGE}"],
      "environment": {"KEY": "{env:MY_KEY}"}, "enabled": false, "timeout": 5000,
    },
    "remote": {
      "type": "remote", "url": "https://h.example/mcp",
      "headers": {"Authorization": "Bearer {env:MY_KEY}"},
    },
  },
}
""",
    )
    file = the_file(find(machine(tmp_path)))
    assert {server.name: server.config for server in file.servers} == {
        "local": {
            "command": "bun",
            "args": ["x", "${env:PACKAGE}"],
            "env": {"KEY": "${env:MY_KEY}"},
            "enabled": False,
            "type": "local",
        },
        "remote": {
            "type": "remote",
            "url": "https://h.example/mcp",
            "headers": {"Authorization": "Bearer ${env:MY_KEY}"},
        },
    }
    text = with_toolgate(file, LAUNCH, file.servers)
    assert '"theme": "dark", // mine' in text
    entry = {"type": "local", "enabled": True, "command": ["/opt/toolgate", "stdio"]}
    assert parse(text) == {"theme": "dark", "mcp": {"toolgate": entry}}
    path.write_text(text, encoding="utf-8")
    assert the_file(find(machine(tmp_path))).servers[0].is_toolgate


def test_roo_code_writes_seconds_and_amp_a_key_with_a_dot(tmp_path: Path) -> None:
    put(
        tmp_path / "work" / ".roo" / "mcp.json",
        '{"mcpServers": {"s": {"url": "http://h", "timeout": 90}}}',
    )
    put(
        tmp_path / ".config" / "amp" / "settings.json",
        '{"amp.mcpServers": {"s": {"command": "x"}}}',
    )
    amp, roo = find(machine(tmp_path))
    assert roo.servers[0].config["timeout_s"] == 90
    assert parse(with_toolgate(amp, LAUNCH, amp.servers)) == {
        "amp.mcpServers": {"toolgate": {"command": "/opt/toolgate", "args": ["stdio"]}}
    }


@pytest.mark.parametrize(
    ("name", "text", "permissions"),
    [
        (
            ".kiro/settings/mcp.json",
            '{"mcpServers": {"s": {"command": "x", "disabledTools": ["a"], "autoApprove": ["b"]}}}',
            {"a": False},
        ),
        (
            ".roo/mcp.json",
            '{"mcpServers": {"s": {"command": "x", "alwaysAllow": ["b"]}}}',
            None,
        ),
        (
            ".gemini/settings.json",
            '{"mcpServers": {"s": {"command": "x", "includeTools": ["a", "b(c)", "d"], '
            '"excludeTools": ["a"], "trust": true}}}',
            {"*": False, "a": False, "b": True, "d": True},
        ),
        (
            ".codex/config.toml",
            '[mcp_servers.s]\ncommand = "x"\nenabled_tools = ["a"]\ndisabled_tools = ["b"]\n',
            {"*": False, "a": True, "b": False},
        ),
        (
            ".codex/config.toml",
            '[mcp_servers.s]\ncommand = "x"\nenabled_tools = []\n',
            {"*": False},
        ),
        (
            ".amp/settings.json",
            '{"amp.mcpServers": {"s": {"command": "x", "includeTools": ["read_*"]}}}',
            {"*": False, "read_*": True},
        ),
        (
            "opencode.json",
            '{"mcp": {"s": {"type": "local", "command": ["x"]}}, '
            '"tools": {"s_a": false, "s_b": true, "other_*": false, "bash": false}, '
            '"permission": {"s_c*": "deny", "s_d": "ask"}}',
            {"a": False, "c*": False},
        ),
        (
            "opencode.json",
            '{"mcp": {"s": {"type": "local", "command": ["x"]}}, "tools": {"s*": false}}',
            {"*": False},
        ),
    ],
    ids=["kiro", "roo", "gemini", "codex", "codex empty", "amp", "opencode", "opencode all"],
)
def test_lists_of_allowed_and_blocked_tools_are_kept_and_those_of_approval_are_none(
    name: str, text: str, permissions: dict[str, bool] | None, tmp_path: Path
) -> None:
    put(tmp_path / "work" / name, text)
    (server,) = the_file(find(machine(tmp_path))).servers
    assert server.config.get("tool_permissions") == permissions


def test_what_claude_code_denies_is_kept_and_what_it_allows_is_no_list(tmp_path: Path) -> None:
    """Rules as https://code.claude.com/docs/en/permissions shows them."""
    deny = {"permissions": {"deny": ["mcp__my_db__drop", "Bash", "mcp__all"], "allow": ["mcp__x"]}}
    put(tmp_path / ".claude" / "settings.json", json.dumps(deny))
    local = {"permissions": {"deny": ["mcp__near__write"]}}
    put(tmp_path / "p" / ".claude" / "settings.local.json", json.dumps(local))
    servers = {"my db": {"command": "x"}, "all": {"command": "y"}, "x": {"command": "z"}}
    project = {str(tmp_path / "p"): {"mcpServers": {"near": {"command": "n"}}}}
    text = json.dumps({"mcpServers": servers, "projects": project})
    put(tmp_path / ".claude.json", text)
    file = the_file(find(machine(tmp_path)))
    assert {server.name: server.config.get("tool_permissions") for server in file.servers} == {
        "my db": {"drop": False},
        "all": {"*": False},
        "x": None,
        "near": {"write": False},
    }


@pytest.mark.parametrize(
    ("name", "beside", "rejected"),
    [
        (".gemini/settings.json", {"mcp": {"excluded": ["a", "other"]}}, {"a"}),
        (".gemini/settings.json", {"mcp": {"allowed": ["b"], "excluded": []}}, {"a"}),
        (".gemini/settings.json", {"mcp": {"allowed": [], "excluded": None}}, {"a", "b"}),
        (".gemini/settings.json", {"mcp": {"excluded": "a"}}, set()),
        ("work/.mcp.json", {}, {"a"}),
    ],
    ids=["excluded", "not allowed", "none allowed", "no list", "claude code"],
)
def test_a_server_that_its_client_rejects_is_disabled(
    name: str, beside: dict[str, object], rejected: set[str], tmp_path: Path
) -> None:
    """Lists as the documentation of Gemini CLI and Claude Code describes them."""
    servers = {"a": {"command": "x"}, "b": {"command": "y"}}
    put(tmp_path / name, json.dumps({"mcpServers": servers, **beside}))
    local = {"disabledMcpjsonServers": ["a"]}
    put(tmp_path / "work" / ".claude" / "settings.local.json", json.dumps(local))
    file = the_file(find(machine(tmp_path)))
    disabled = {server.name for server in file.servers if server.config.get("enabled") is False}
    assert disabled == rejected


def test_servers_that_were_switched_off_in_a_project_of_claude_code_are_disabled(
    tmp_path: Path,
) -> None:
    """What the `/mcp` menu of Claude Code writes."""
    work = tmp_path / "work"
    project = {
        "mcpServers": {"off": {"command": "x"}, "on": {"command": "y"}},
        "disabledMcpServers": ["off", "everywhere"],
        "disabledMcpjsonServers": ["shared"],
    }
    user = {"everywhere": {"command": "e"}}
    text = json.dumps({"mcpServers": user, "projects": {str(work): project}})
    put(tmp_path / ".claude.json", text)
    put(work / ".mcp.json", json.dumps({"mcpServers": {"shared": {"command": "z"}}}))
    servers = [server for file in find(machine(tmp_path)) for server in file.servers]
    assert {server.name: server.config.get("enabled") for server in servers} == {
        "everywhere": None,
        "off": False,
        "on": None,
        "shared": False,
    }


def test_what_amp_rejects_is_disabled_by_the_first_rule_that_matches(tmp_path: Path) -> None:
    """Rules as https://ampcode.com/manual shows them."""
    permissions = [
        {"matches": {"command": "npx", "args": "* @playwright/mcp@*"}, "action": "allow"},
        {"matches": {"command": "npx"}, "action": "reject"},
        {"matches": {"url": "*/malicious.com*"}, "action": "reject"},
    ]
    servers = {
        "allowed": {"command": "npx", "args": ["-y", "@playwright/mcp@latest"]},
        "rejected": {"command": "npx", "args": ["-y", "other"]},
        "remote": {"url": "https://malicious.com/mcp"},
        "my-db": {"command": "uvx", "args": ["db"]},
    }
    disabled = ["browser_*", "builtin:edit_file", "mcp__my-db__drop", "mcp__other__x"]
    about = {"amp.mcpPermissions": permissions, "amp.tools.disable": disabled}
    put(
        tmp_path / ".config" / "amp" / "settings.json",
        json.dumps({"amp.mcpServers": servers, **about}),
    )
    own = {"of-project": {"command": "npx"}}
    put(tmp_path / "work" / ".amp" / "settings.json", json.dumps({"amp.mcpServers": own}))
    amp, project = find(machine(tmp_path))
    found = {server.name: server.config for server in (*amp.servers, *project.servers)}
    off = {name for name, config in found.items() if config.get("enabled") is False}
    assert off == {"rejected", "remote", "of-project"}
    assert found["my-db"]["tool_permissions"] == {"browser_*": False, "drop": False}
    assert found["of-project"]["tool_permissions"] == {"browser_*": False}


@pytest.mark.parametrize(
    ("pattern", "permissions"),
    [
        ("*", {"*": False}),
        ("mcp__*", {"*": False}),
        ("mcp__s__*", {"*": False}),
        ("*_delete", {"*_delete": False}),
        ("edit_file", {"edit_file": False}),
        ("builtin:*", None),
        ("mcp__t__*", None),
        (3, None),
    ],
)
def test_tools_that_amp_disables_are_blocked(
    pattern: object, permissions: dict[str, bool] | None, tmp_path: Path
) -> None:
    entry = {"amp.mcpServers": {"s": {"command": "x"}}, "amp.tools.disable": [pattern]}
    put(tmp_path / ".config" / "amp" / "settings.json", json.dumps(entry))
    (server,) = the_file(find(machine(tmp_path))).servers
    assert server.config.get("tool_permissions") == permissions


def test_a_file_that_cannot_be_read_is_reported_and_hides_no_other(tmp_path: Path) -> None:
    put(tmp_path / ".cursor" / "mcp.json", "{ broken")
    put(tmp_path / ".gemini" / "settings.json", JSON.replace("KEY", "mcpServers"))
    broken, good = find(machine(tmp_path))
    assert "line 1, column 3: this is not valid JSON" in broken.error
    assert (good.client.name, good.error) == ("gemini", "")


def test_settings_without_servers_are_not_listed(tmp_path: Path) -> None:
    put(tmp_path / ".gemini" / "settings.json", '{"theme": "Dracula"}')
    put(tmp_path / ".config" / "Code" / "User" / "settings.json", '{"editor.tabSize": 2}')
    assert find(machine(tmp_path)) == []


def test_every_client_of_the_list_has_its_own_name() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS) == 21
    assert set(get_args(Platform)) == set(PLACES)


CURSOR = """\
{
  // before, with "mcpServers" in it
  "theme": "dark", /* and after */
  "mcpServers": {
    "a": { "command": "x" }, // inside
    "b": { "command": "y" },
  },
  "list": [1, 2,], // trailing
}
"""


def test_what_stands_outside_the_servers_survives_with_its_comments(tmp_path: Path) -> None:
    put(tmp_path / ".cursor" / "mcp.json", CURSOR)
    file = the_file(find(machine(tmp_path)))
    assert with_toolgate(file, LAUNCH, file.servers) == (
        """\
{
  // before, with "mcpServers" in it
  "theme": "dark", /* and after */
  "mcpServers": {
    "toolgate": {
      "command": "/opt/toolgate",
      "args": [
        "stdio"
      ]
    }
  },
  "list": [1, 2,], // trailing
}
"""
    )


def test_servers_that_were_not_taken_stay(tmp_path: Path) -> None:
    put(tmp_path / ".cursor" / "mcp.json", CURSOR)
    file = the_file(find(machine(tmp_path)))
    left: Any = parse(with_toolgate(file, LAUNCH, file.servers[:1]))
    assert list(left["mcpServers"]) == ["toolgate", "b"]


def test_tabs_windows_line_ends_and_single_lines_are_kept(tmp_path: Path) -> None:
    path = tmp_path / ".config" / "Code" / "User" / "mcp.json"
    put(path, "")
    path.write_bytes(b'{\r\n\t"servers": {\r\n\t\t"a": {"command": "x"}\r\n\t}\r\n}\r\n')
    file = the_file(find(machine(tmp_path)))
    assert with_toolgate(file, LAUNCH, file.servers) == (
        '{\r\n\t"servers": {\r\n\t\t"toolgate": {\r\n\t\t\t"type": "stdio",\r\n'
        '\t\t\t"command": "/opt/toolgate",\r\n\t\t\t"args": [\r\n\t\t\t\t"stdio"\r\n\t\t\t]\r\n'
        "\t\t}\r\n\t}\r\n}\r\n"
    )
    path.write_text('{"x": 1, "servers": {"a": {"command": "x"}}}')
    file = the_file(find(machine(tmp_path)))
    assert with_toolgate(file, LAUNCH, file.servers) == (
        '{"x": 1, "servers": {"toolgate": {"type": "stdio", "command": "/opt/toolgate", '
        '"args": ["stdio"]}}}'
    )


def test_the_projects_of_claude_code_lose_what_was_taken_and_gain_nothing(tmp_path: Path) -> None:
    text = '{\n  "projects": {"/p": {"mcpServers": {"a": {"command": "x"}}, "n": 1}, "/q": {}}\n}\n'
    put(tmp_path / ".claude.json", text)
    file = the_file(find(machine(tmp_path)))
    assert file.servers[0].project == "/p"
    assert parse(with_toolgate(file, LAUNCH, file.servers)) == {
        "mcpServers": {
            "toolgate": {"type": "stdio", "command": "/opt/toolgate", "args": ["stdio"]}
        },
        "projects": {"/p": {"mcpServers": {}, "n": 1}, "/q": {}},
    }


def test_the_tables_of_codex_are_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    put(
        tmp_path / ".codex" / "config.toml",
        '# mine\nmodel = "m"\n\n# docs\n[mcp_servers.docs]\nurl = "https://h/"\n'
        '[mcp_servers.docs.env]\nA = "b"\n\n[profiles.p]\nx = 1 # one\n',
    )
    file = the_file(find(machine(tmp_path)))
    assert with_toolgate(file, LAUNCH, file.servers) == (
        '# mine\nmodel = "m"\n\n[profiles.p]\nx = 1 # one\n\n'
        '[mcp_servers.toolgate]\ncommand = "/opt/toolgate"\nargs = ["stdio"]\n'
    )


def test_tables_of_codex_that_cannot_be_taken_apart_are_left(tmp_path: Path) -> None:
    put(tmp_path / ".codex" / "config.toml", 'mcp_servers = { a = { command = "x" } }\n')
    file = the_file(find(machine(tmp_path)))
    with pytest.raises(SettingError):
        with_toolgate(file, LAUNCH, file.servers)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    before=st.dictionaries(st.text(), json_values, max_size=3),
    after=st.dictionaries(st.text(), json_values, max_size=3),
    names=st.lists(st.text(), unique=True, min_size=1, max_size=4),
    indent=st.sampled_from([None, 1, 2, "\t"]),
)
def test_nothing_but_the_servers_changes_in_any_file(
    before: dict[str, Any],
    after: dict[str, Any],
    names: list[str],
    indent: int | str | None,
    tmp_path: Path,
) -> None:
    servers = {name: {"command": "x", "env": {"K": name}} for name in names}
    body = {**before, "mcpServers": servers, **after, "projects": {}}
    body["mcpServers"] = servers
    put(tmp_path / ".cursor" / "mcp.json", json.dumps(body, indent=indent))
    file = next(file for file in find(machine(tmp_path)) if not file.error)
    new = json.loads(with_toolgate(file, LAUNCH, file.servers))
    assert list(new["mcpServers"]) == ["toolgate"]
    others = {key: value for key, value in new.items() if key in body and key != "mcpServers"}
    expected = {key: value for key, value in body.items() if key != "mcpServers"}
    for key in ("servers", "context_servers", "mcp_servers", "mcp"):
        others.pop(key, None)
        expected.pop(key, None)
    assert others == expected


def test_toolgate_is_started_by_a_path_and_told_where_its_configuration_is(tmp_path: Path) -> None:
    launch = launch_of_this_program(tmp_path / "toolgate.toml", ["more.json"])
    assert Path(launch.command).is_absolute()
    config, more = str(tmp_path / "toolgate.toml"), os.path.realpath("more.json")
    assert launch.args[-5:] == ("stdio", "--config", config, "--import", more)


def test_a_desktop_program_is_told_the_search_path_of_the_shell(tmp_path: Path) -> None:
    """Programs of servers, such as `npx`, were found by `init`, but not from Claude Desktop."""
    for name in ("Claude/claude_desktop_config.json", "Code/User/mcp.json"):
        path = tmp_path / ".config" / name
        path.parent.mkdir(parents=True)
        key = "servers" if "Code" in name else "mcpServers"
        path.write_text(json.dumps({key: {"a": {"command": "npx"}}}), encoding="utf-8")
    texts = [with_toolgate(file, LAUNCH, file.servers) for file in find(machine(tmp_path))]
    entries = [table["toolgate"] for text in texts for table in json.loads(text).values()]
    assert [entry.get("env") for entry in entries] == [{"PATH": LAUNCH.search_path}, None]
