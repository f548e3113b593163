"""What `toolgate.toml` and files of other clients mean, and what is said when they are wrong."""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from toolgate.errors import SettingError
from toolgate.settings import (
    GuardTable,
    ServerTable,
    Settings,
    base_environment,
    child_environment,
    config_dir,
    data_dir,
    default_store_url,
    load,
    redact,
    renamed_keys,
    server_spec,
    tables,
)

ENVIRON = {"HOME": "/home/ada", "PATH": "/bin"}


def keys(table: type, *further: str) -> str:
    """The keys of a table as errors list them."""
    own = [field.name for field in fields(table) if "derived" not in field.metadata]
    return ", ".join(sorted([*own, *further]))


TOP = keys(Settings, "import", "server")
OF_A_SERVER = keys(ServerTable)


def read(folder: Path, text: str, **environ: str) -> Settings:
    """Settings of a `toolgate.toml` with this text."""
    (folder / "toolgate.toml").write_text(text, encoding="utf-8")
    return load(cwd=folder, environ={**ENVIRON, **environ})


def problem(folder: Path, text: str, **environ: str) -> str:
    """The error of a `toolgate.toml` with this text, without its folder."""
    with pytest.raises(SettingError) as caught:
        read(folder, text, **environ)
    return str(caught.value).replace(f"{folder}/", "")


def test_without_any_file_the_defaults_hold(tmp_path: Path) -> None:
    file = config_dir(ENVIRON) / "toolgate.toml"
    assert load(cwd=tmp_path, environ=ENVIRON) == Settings(new_config_file=file)


def test_every_kind_of_server_is_read_with_its_options(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        """
        [server.github]
        command = "npx"
        args = ["-y", "@modelcontextprotocol/server-github", 8080]
        env = { GITHUB_TOKEN = "${env:TOKEN}", PORT = 3000, DEBUG = true, LEVEL = "${NONE:-}" }
        cwd = "work"
        timeout_s = 900
        pinned = ["create_issue"]
        trust = true
        tools.slow.timeout_s = 1200
        [server.docs]
        url = "https://example.org/mcp"
        headers = { Authorization = "Bearer ${TOKEN}" }
        era = "modern"
        max_message_bytes = 2048
        [server.old]
        url = "http://localhost:9/sse"
        disabled = true
        [server.older]
        url = "http://localhost:9/events"
        transport = "sse"
        [server.newer]
        url = "http://localhost:9/sse"
        type = "streamable-http"
        [server.mine]
        python = "my_tools.server:mcp"
        [server.notes]
        python = "tools/notes.py"
        [server.note]
        python = "tools/notes.py:add"
        """,
        TOKEN="secret",
    )
    github, docs, old, older, newer, mine, notes, note = settings.servers
    assert github.kind == "stdio"
    assert github.options == {
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-github", "8080"],
        "env": {"GITHUB_TOKEN": "secret", "PORT": "3000", "DEBUG": "true"},
        "cwd": str(tmp_path / "work"),
    }
    assert (github.timeout_s, github.max_timeout_s) == (900, 1200)
    assert github.tool_timeouts_s == {"slow": 1200}
    assert (github.pinned, github.trust) == (("create_issue",), True)
    assert docs.kind == "http"
    assert docs.options == {
        "url": "https://example.org/mcp",
        "headers": {"Authorization": "Bearer secret"},
    }
    assert (docs.era, docs.max_message_bytes) == ("modern", 2048)
    assert (old.kind, old.enabled) == ("sse", False)
    assert (older.kind, newer.kind) == ("sse", "http")
    assert (mine.kind, mine.options) == ("inprocess", {"target": "my_tools.server:mcp"})
    assert notes.options == {"target": str(tmp_path / "tools" / "notes.py")}
    assert note.options == {"target": f"{tmp_path / 'tools' / 'notes.py'}:add"}
    assert github.source == str(tmp_path / "toolgate.toml")
    assert settings.notices == ()


def test_a_secret_is_in_no_representation(tmp_path: Path) -> None:
    settings = read(
        tmp_path, '[server.a]\ncommand = "x"\nenv = { KEY = "${TOKEN}" }', TOKEN="hunter2"
    )
    assert settings.servers[0].options["env"] == {"KEY": "hunter2"}
    assert "hunter2" not in repr(settings)


MALFORMED = {
    "no TOML": (
        "[serve]\nport = ",
        "toolgate.toml, line 2, column 8: this is not valid TOML: invalid value. Correct the TOML "
        "there.",
    ),
    "end of file": (
        'mode = "auto',
        "toolgate.toml, line 1, column 13: this is not valid TOML: unterminated string. Correct "
        "the TOML there.",
    ),
    "key twice": (
        '[server.a]\ncommand = "x"\n[server.a]\ncommand = "y"',
        "toolgate.toml, line 3, column 10: this is not valid TOML: cannot declare ('server', 'a') "
        "twice. Correct the TOML there.",
    ),
    "unknown table": (
        "[discoverey]\nmax_results = 3",
        "toolgate.toml, line 1: the key 'discoverey' does not exist. "
        f"Allowed: {TOP}. Did you mean 'discovery'?",
    ),
    "no search and no list": (
        'mode = "meta"\noptimization = "off"',
        'toolgate.toml: mode is "meta", and the search is off: clients could reach no tool. '
        'Allowed with the search off: mode = "auto" or "all". Set mode = "auto", or change '
        "optimization ('off') or experiment_percent (100).",
    ),
    "no search and no list for some": (
        'mode = "meta"\noptimization = "bm25"\nexperiment_percent = 99.5',
        'toolgate.toml: mode is "meta", and the search is off for a part of the conversations: '
        'clients could reach no tool. Allowed with the search off: mode = "auto" or "all". Set '
        "mode = \"auto\", or change optimization ('bm25') or experiment_percent (99.5).",
    ),
    "a group without a name": (
        '[groups]\n"" = ["mail"]',
        "toolgate.toml: [groups] has a group called ''. Allowed: printable names without "
        "spaces at their ends. Name it after the purpose of its tools.",
    ),
    "search for others by a third": (
        '[catalog_search]\nstrategy = "cloud"',
        "toolgate.toml: catalog_search.strategy is 'cloud'. Allowed: bm25, hybrid, or another "
        "search that runs here. Set it to one of these.",
    ),
    "short token": (
        '[catalog_search]\ntokens = { team = ["abc"] }',
        "toolgate.toml: a token of catalog_search.tokens.team has 3 characters. Allowed: 16 "
        "characters or more, or sha256: and 64 hexadecimal digits. Make one with: python -c "
        "'import secrets; print(secrets.token_urlsafe(32))'",
    ),
    "token of two projects": (
        '[catalog_search]\ntokens = { a = ["0123456789abcdef"], b = ["0123456789abcdef"] }',
        "toolgate.toml: a token of catalog_search.tokens.b is also a token of 'a'. Allowed: 16 "
        "characters or more, or sha256: and 64 hexadecimal digits. Make one with: python -c "
        "'import secrets; print(secrets.token_urlsafe(32))'",
    ),
    "unknown key": (
        "# ours\n[discovery]\n\nmax_result = 3",
        "toolgate.toml, line 4: the key 'max_result' in [discovery] does not exist. Allowed: "
        "auto_tokens, budget_tokens, describe_budget_tokens, max_results, show_down. Did you mean "
        "'max_results'?",
    ),
    "former key": (
        "optimization_share = 20",
        "toolgate.toml, line 1: the key 'optimization_share' does not exist. "
        f"Allowed: {TOP}. It is called 'experiment_percent' now.",
    ),
    "former key in a table": (
        '[[guard]]\napproval = "manager"',
        "toolgate.toml, line 2: the key 'approval' in [guard.0] does not exist. "
        f"Allowed: {keys(GuardTable)}. It is called 'approver' now.",
    ),
    "unknown key of a server": (
        '[server.github]\ncommand = "npx"\nargz = []',
        "toolgate.toml, line 3: the key 'argz' in [server.github] does not exist. "
        f"Allowed: {OF_A_SERVER}. Did you mean 'args'?",
    ),
    "a key that says what was read": (
        "files = []",
        "toolgate.toml, line 1: the key 'files' does not exist. "
        f"Allowed: {TOP}. Did you mean 'rules'?",
    ),
    "wrong type": (
        '[serve]\nport = "7420"',
        "toolgate.toml, line 2: serve.port is a text. Expected: a whole number. Correct it there.",
    ),
    "truth is no number": (
        "[serve]\nport = true",
        "toolgate.toml, line 2: serve.port is true or false. Expected: a whole number. Correct it "
        "there.",
    ),
    "wrong type inside a list": (
        '[server.a]\ncommand = "x"\nargs = ["a", ["b"]]',
        "toolgate.toml, line 3: server.a.args.1 is a list. Expected: a text in quotes. Correct it "
        "there.",
    ),
    "out of range": (
        "[serve]\nport = 70000",
        "toolgate.toml, line 2: serve.port is 70000. Allowed: 0 to 65,535. Set it to a value in "
        "between.",
    ),
    "not a number at all": (
        "[results]\nttl_s = nan",
        "toolgate.toml, line 2: results.ttl_s is nan. Allowed: 1 to 604,800. Set it to a value in "
        "between.",
    ),
    "not one of the words": (
        'mode = "some"',
        "toolgate.toml, line 1: mode is 'some'. Allowed: auto, meta, all. Set it to one of these.",
    ),
    "version of the future": (
        "version = 2",
        "toolgate.toml, line 1: version is one that this Toolgate does not know. Allowed: 1. "
        "Install a newer Toolgate.",
    ),
    "no way to reach it": (
        "[server.a]\nargs = []",
        "toolgate.toml, line 1: server.a has no command, url or python. Expected: one of command "
        "(a program), url (an address), python (an object). Add what is missing, or remove the "
        "server.",
    ),
    "two ways to reach it": (
        '[server.a]\ncommand = "x"\nurl = "http://h/"',
        "toolgate.toml, line 1: server.a has command and url. Expected: one of command (a "
        "program), url (an address), python (an object). Remove the others.",
    ),
    "a kind that does not exist": (
        '[server.a]\nurl = "http://h/"\ntype = "websocket"',
        "toolgate.toml, line 3: type of server.a is 'websocket'. Allowed: stdio, http, sse. "
        "Correct or remove it.",
    ),
    "a kind that contradicts": (
        '[server.a]\ncommand = "x"\ntype = "http"',
        "toolgate.toml, line 3: server.a has a command, but its type is 'http'. Remove type, or "
        "write a url in place of the command.",
    ),
    "no address": (
        '[server.a]\nurl = "example.org/mcp"',
        "toolgate.toml, line 2: url of server.a is not a server URL. Expected: "
        "http://HOST[:PORT]/PATH or https://… Correct it.",
    ),
    "no name of an object": (
        '[server.a]\npython = "my tools"',
        "toolgate.toml, line 2: python of server.a is 'my tools'. Expected: \"FILE.py\", "
        '"FILE.py:NAME", "MODULE" or "MODULE:NAME", such as "my_tools.py".',
    ),
    "two ways to authenticate": (
        '[server.a]\nurl = "http://u:p@h/"\nheaders = { authorization = "Bearer x" }',
        "toolgate.toml, line 2: server.a has credentials in its url and a header Authorization. "
        "Remove one of them: a request can send only one.",
    ),
    "header that HTTP refuses": (
        '[server.a]\nurl = "http://h/"\nheaders = { X = "a\\nb" }',
        "toolgate.toml, line 3: the header 'X' of server.a has a name or value that HTTP does not "
        "allow. Remove line breaks and other control characters.",
    ),
    "less in all than at once": (
        '[server.a]\ncommand = "x"\ntimeout_s = 50\nmax_timeout_s = 20',
        "toolgate.toml, line 4: max_timeout_s of server 'a' is 20, less than its timeout_s. "
        "Allowed: 50 or more.",
    ),
    "variable of a setting": (
        '[store]\nurl = "${DB_URL}"',
        "toolgate.toml, line 2: store.url names the variable DB_URL, which is not set. Set DB_URL "
        "in the environment, or write ${DB_URL:-DEFAULT}.",
    ),
    "options without a plugin": (
        '[server.a]\ncommand = "x"\n[server.a.options]\nport = 1',
        "toolgate.toml, line 3: server.a has options, which only transports of plugins take. "
        "Remove options, or set type to the name of the transport.",
    ),
    "options of a plugin that is not installed": (
        '[server.a]\ntype = "pigeon"\noptions = { port = 1 }',
        "toolgate.toml, line 2: type of server.a is 'pigeon'. Allowed: stdio, http, sse. "
        "Correct or remove it.",
    ),
    "store of another make": (
        '[store]\nurl = "mysql://h/d"',
        "toolgate.toml: store.url starts with 'mysql'. Allowed: sqlite:///PATH, "
        "postgresql://USER@HOST/DATABASE. Correct it, or remove it to use the default.",
    ),
    "a collector without its scheme": (
        '[traces]\nendpoint = "localhost:4318"',
        "toolgate.toml: traces.endpoint is not a collector URL. Expected: "
        "http://HOST:PORT/PATH or https://… Correct or remove it.",
    ),
    "a collector that speaks otherwise": (
        '[metrics]\nendpoint = "grpc://127.0.0.1:4317"',
        "toolgate.toml: metrics.endpoint is not a collector URL. Expected: "
        "http://HOST:PORT/PATH or https://… Correct or remove it.",
    ),
    "a collector without a host": (
        '[audit]\notel_endpoint = "http:///v1/logs"',
        "toolgate.toml: audit.otel_endpoint is not a collector URL. Expected: "
        "http://HOST:PORT/PATH or https://… Correct or remove it.",
    ),
    "a meta-tool that does not exist": (
        'meta_tools = ["tool_discover"]',
        "toolgate.toml: meta_tools contains 'tool_discover'. Allowed: tool_discovery, "
        "tool_describe, tool_execute, tool_read, tool_program, result_read, processPrompt, "
        "getKnowledge. Correct or remove it.",
    ),
    "pinned without its server": (
        'pinned = ["create_issue"]',
        "toolgate.toml: pinned contains 'create_issue'. Expected: \"server:tool\". Correct or "
        "remove it.",
    ),
    "flat with two servers": (
        'tool_names = "flat"\n[server.a]\ncommand = "x"\n[server.b]\ncommand = "x"',
        'toolgate.toml: tool_names is "flat", and these servers are enabled: a, b. Allowed: one '
        'enabled server. Disable the others, or set tool_names = "prefixed".',
    ),
    "an import that is missing": (
        'import = ["gone.json"]',
        "toolgate.toml, line 1: the file 'gone.json' does not exist. Correct the path, or "
        "remove it from the imports.",
    ),
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.values(), ids=MALFORMED)
def test_wrong_settings_are_refused_with_place_and_remedy(
    text: str, message: str, tmp_path: Path
) -> None:
    assert problem(tmp_path, text) == message


def test_a_text_that_is_no_utf8_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "toolgate.toml").write_bytes(b'mode = "auto"\n# caf\xe9\n')
    with pytest.raises(SettingError, match=r"line 2, column 6: this is not UTF-8 text"):
        load(cwd=tmp_path, environ=ENVIRON)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_every_encoding_that_editors_write_is_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "toolgate.toml").write_bytes('mode = "all" # naïve\r\n'.encode(encoding))
    assert load(cwd=tmp_path, environ=ENVIRON).mode == "all"


def test_a_missing_variable_disables_its_server_and_no_other(tmp_path: Path) -> None:
    """Our decision: one token that is not set must not take twenty servers away."""
    settings = read(
        tmp_path,
        '[server.a]\ncommand = "x"\nenv = { K = "${env:NOT_SET}" }\n[server.b]\ncommand = "y"\n',
    )
    a, b = settings.servers
    assert (a.enabled, b.enabled) == (False, True)
    assert a.problem == (
        f"{tmp_path}/toolgate.toml, line 1: server 'a' needs the variable NOT_SET, which is not "
        "set. Set NOT_SET in the environment of Toolgate, write ${NOT_SET:-DEFAULT}, write "
        "${secret:NOT_SET} and store it (toolgate credentials set a --secret NOT_SET), or disable "
        "the server."
    )
    assert settings.notices == (a.problem,)


def test_a_disabled_server_may_miss_its_variables(tmp_path: Path) -> None:
    settings = read(tmp_path, '[server.a]\nenabled = false\ncommand = "${NOT_SET}"')
    assert (settings.servers[0].problem, settings.notices) == ("", ())


VARIABLES = {
    "plain": ("${NAME}", "value"),
    "as VS Code writes it": ("${env:NAME}", "value"),
    "default that is not needed": ("${NAME:-other}", "value"),
    "default": ("${NONE:-other}", "other"),
    "empty default": ("<${NONE:-}>", "<>"),
    "twice": ("${NAME}/${NAME}", "value/value"),
    "literal": ("$${NAME} $NAME ${1} ${}", "${NAME} $NAME ${1} ${}"),
    "input": ("${input:my-name}", "typed"),
    "a value is not read again": ("${TRICK}", "${NAME}"),
}


@pytest.mark.parametrize(("written", "filled"), VARIABLES.values(), ids=VARIABLES)
def test_variables_in_values_are_replaced(written: str, filled: str, tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        f'[server.a]\ncommand = "x"\nargs = ["{written}"]',
        NAME="value",
        MY_NAME="typed",
        TRICK="${NAME}",
    )
    assert settings.servers[0].options["args"] == [filled]


def test_paths_may_start_at_home_or_at_the_file(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        '[server.a]\ncommand = "./run.sh"\nargs = ["~/notes"]\ncwd = "~"\n'
        '[store]\nurl = "sqlite:///data/t.db"\n[log]\nfile = "~/t.log"',
    )
    assert settings.servers[0].options == {
        "command": str(tmp_path / "run.sh"),
        "args": ["/home/ada/notes"],
        "env": {},
        "cwd": "/home/ada",
    }
    assert settings.store.url == f"sqlite:///{tmp_path}/data/t.db"
    assert settings.log.file == "/home/ada/t.log"


def test_an_env_file_fills_what_env_does_not(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text('# keys\nexport A=1\nB="two # 2"\nC=3 # three\n\nnothing\n')
    settings = read(tmp_path, '[server.a]\ncommand = "x"\nenv_file = ".env"\nenv = { A = "own" }')
    assert settings.servers[0].options["env"] == {"A": "own", "B": "two # 2", "C": "3"}
    assert tmp_path / ".env" in settings.files


@pytest.mark.parametrize(("one", "other"), [("ab", "AB"), ("a-b", "a_b"), ("a.b", "A-b")])
def test_names_that_clients_cannot_tell_apart_are_refused_with_both_places(
    one: str, other: str, tmp_path: Path
) -> None:
    text = f'[server."{one}"]\ncommand = "x"\n[server."{other}"]\ncommand = "y"'
    assert problem(tmp_path, text) == (
        f"Servers {one!r} and {other!r} have names that clients cannot distinguish: in "
        "toolgate.toml, line 1, and in toolgate.toml, line 3. Names must differ in more than "
        "case, '-', '_' and '.'. Rename one of them; in an imported file import = [{ file = \"…\", "
        f'rename = {{ "{other}" = "{other}-2" }} }}] does that.'
    )


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (".env", "{folder}/.env cannot be read: No such file or directory."),
        ("folder", "{folder}/folder cannot be read: Is a directory."),
        ("bad", "{folder}/bad, line 1, column 3: this is not UTF-8 text."),
    ],
    ids=["missing", "a folder", "no text"],
)
def test_an_env_file_that_cannot_be_read_disables_its_server_and_no_other(
    written: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad").write_bytes(b"A=\xff")
    settings = read(
        tmp_path,
        f'[server.a]\ncommand = "x"\nenv_file = "{written}"\n[server.b]\ncommand = "y"\n',
    )
    a, b = settings.servers
    assert (a.enabled, a.options, b.enabled) == (False, {}, True)
    assert a.problem == (
        f"{tmp_path}/toolgate.toml, line 3: server 'a' cannot use its env_file: "
        f"{reason.format(folder=tmp_path)} Make the file, correct env_file, or disable the server."
    )
    assert settings.notices == (a.problem,)
    assert tmp_path / written in settings.files


def test_a_disabled_server_may_miss_its_env_file(tmp_path: Path) -> None:
    settings = read(tmp_path, '[server.a]\nenabled = false\ncommand = "x"\nenv_file = ".env"')
    assert (settings.servers[0].problem, settings.notices) == ("", ())


def test_an_env_file_behind_a_missing_variable_disables_its_server(tmp_path: Path) -> None:
    settings = read(tmp_path, '[server.a]\ncommand = "x"\nenv_file = "${NOT_SET}/.env"')
    assert not settings.servers[0].enabled
    assert "needs the variable NOT_SET, which is not set" in settings.servers[0].problem


def test_the_file_is_looked_for_here_then_in_the_users_folder(tmp_path: Path) -> None:
    environ = {**ENVIRON, "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    here, user = tmp_path / "here", tmp_path / "xdg" / "toolgate"
    here.mkdir()
    user.mkdir(parents=True)
    (user / "toolgate.toml").write_text('mode = "all"')
    assert load(cwd=here, environ=environ).mode == "all"
    (here / "toolgate.toml").write_text('mode = "meta"')
    assert load(cwd=here, environ=environ).mode == "meta"
    named = {**environ, "TOOLGATE_CONFIG": str(user / "toolgate.toml")}
    assert load(cwd=here, environ=named).mode == "all"
    with pytest.raises(SettingError, match="does not exist"):
        load(Path("gone.toml"), cwd=here, environ=environ)


def test_what_the_command_line_says_goes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "toolgate.toml").write_text('mode = "all"\n[serve]\nport = 1\nhost = "::1"')
    settings = load(cwd=tmp_path, environ=ENVIRON, overrides={"serve": {"port": 2}})
    assert (settings.mode, settings.serve.host, settings.serve.port) == ("all", "::1", 2)
    with pytest.raises(SettingError, match=r"the command line: serve\.port is -1"):
        load(cwd=tmp_path, environ=ENVIRON, overrides={"serve": {"port": -1}})


def test_an_old_name_works_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our decision: renamed keys work one minor version."""
    renamed = renamed_keys.RenamedKey(
        old=("server", "*", "patience"), new="timeout_s", until="0.3.0"
    )
    monkeypatch.setattr(renamed_keys, "RENAMED", (renamed,))
    settings = read(tmp_path, '[server.a]\ncommand = "x"\npatience = 7')
    assert settings.servers[0].timeout_s == 7
    assert settings.notices == (
        f"{tmp_path}/toolgate.toml, line 3: server.a.patience is called 'timeout_s' now; the old "
        "name works until 0.3.0. Run: toolgate config migrate",
    )
    both = problem(tmp_path, '[server.a]\ncommand = "x"\npatience = 7\ntimeout_s = 8')
    assert "is the old name of 'timeout_s', and both are there" in both


def test_the_old_name_of_optimization_works_with_a_warning(tmp_path: Path) -> None:
    """Our decision: it was `[search] strategy` before, in another table."""
    settings = read(tmp_path, '[search]\nstrategy = "hybrid"')
    assert settings.optimization == "hybrid"
    assert settings.notices == (
        f"{tmp_path}/toolgate.toml, line 2: search.strategy is called 'optimization' now at the top"
        " of the file; the old name works until 0.2.0. Run: toolgate config migrate",
    )
    both = problem(tmp_path, 'optimization = "off"\n[search]\nstrategy = "bm25"')
    assert "search.strategy is the old name of 'optimization', and both are there" in both


def test_secrets_of_the_search_come_from_the_environment_and_are_not_shown(tmp_path: Path) -> None:
    text = (
        '[search]\nembedder_options = { key = "${env:SECRET}", more = ["${SECRET}"] }\n'
        '[search.options.cloud]\ntoken = "${env:SECRET}"\n'
        '[catalog_search]\ntokens = { team = ["${env:SECRET}"] }\n'
    )
    settings = read(tmp_path, text, SECRET="a-secret-of-20-signs")
    assert settings.search.options == {"cloud": {"token": "a-secret-of-20-signs"}}
    assert settings.search.embedder_options["more"] == ["a-secret-of-20-signs"]
    assert settings.catalog_search.tokens == {"team": ("a-secret-of-20-signs",)}
    assert "a-secret" not in repr(settings)


def test_who_gets_which_search() -> None:
    """Our decision: the others get `bm25`, or `off` where `bm25` is what is tried out."""

    def given(name: str, share: float) -> set[str]:
        return set(Settings(optimization=name, experiment_percent=share).optimizations)

    assert given("hybrid", 100) == {"hybrid"}
    assert given("hybrid", 10) == {"hybrid", "bm25"}
    assert given("hybrid", 0) == {"bm25"}
    assert given("bm25", 10) == {"bm25", "off"}
    assert given("off", 10) == {"bm25", "off"}


def test_every_range_in_a_sentence_is_the_one_that_is_checked() -> None:
    """Our decision: the reference and the check cannot differ."""
    folder = Path(tables.__file__).parent
    source = "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))
    checked = re.findall(
        r"= between\(([^,]+), ([^,]+), ([^)]+)\)\n\s+\"\"\"(.*?)\"\"\"", source, re.DOTALL
    )
    assert len(checked) > 15
    for _, low, high, sentence in checked:
        ends = [f"{eval(end):,}" for end in (low, high)]
        assert " to ".join(ends) in " ".join(sentence.split()), sentence


def test_a_stored_server_is_read_by_the_same_rules() -> None:
    spec = server_spec(
        "a", {"command": "x", "env": {"K": "${K}"}}, server_id="s1", environ={"K": "v"}
    )
    assert (spec.source, spec.server_id, spec.options["env"]) == ("store", "s1", {"K": "v"})
    with pytest.raises(SettingError, match="the key 'comand' in"):
        server_spec("a", {"comand": "x"}, environ={})


def test_folders_follow_xdg_or_the_home_folder() -> None:
    home = {"HOME": "/home/ada"}
    assert config_dir(home) == Path("/home/ada/.config/toolgate")
    assert data_dir(home) == Path("/home/ada/.local/share/toolgate")
    assert data_dir({**home, "XDG_DATA_HOME": "/data"}) == Path("/data/toolgate")
    assert data_dir({**home, "XDG_DATA_HOME": "relative"}) == data_dir(home)
    assert default_store_url(home) == "sqlite:////home/ada/.local/share/toolgate/toolgate.db"


def test_a_child_inherits_a_safe_minimum_and_what_it_is_given() -> None:
    environ = {
        "PATH": "/bin",
        "LC_TIME": "C",
        "GITHUB_TOKEN": "secret",
        "HTTPS_PROXY": "http://proxy:3128",
        "HTTP_PROXY": "http://ada:secret@proxy:3128",
        "SHELL": "() { evil; }",
        "TOOLGATE_CONFIG": "x",
    }
    safe = {"PATH": "/bin", "LC_TIME": "C", "HTTPS_PROXY": "http://proxy:3128"}
    assert base_environment(environ) == safe
    assert child_environment({"A": "1", "PATH": "/own"}, environ) == {
        **safe,
        "A": "1",
        "PATH": "/own",
    }


SHOWN: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "environment": (
        {"command": "npx", "env": {"A": "x", "B": "${env:B}", "C": "Bearer ${C}", "D": ""}},
        {"command": "npx", "env": {"A": "***", "B": "${env:B}", "C": "Bearer ${C}", "D": ""}},
    ),
    "headers": (
        {"headers": {"Authorization": "Bearer abc"}},
        {"headers": {"Authorization": "***"}},
    ),
    "arguments": (
        {"args": ["--api-key", "abc", "--token=abc", "--port=1", "sk-abc", "-y", "/notes"]},
        {"args": ["--api-key", "***", "--token=***", "--port=1", "***", "-y", "/notes"]},
    ),
    "address": (
        {"url": "https://ada:pw@h/mcp?key=abc&v=${V}"},
        {"url": "https://***@h/mcp?key=***&v=${V}"},
    ),
    "address as argument": (
        {"args": ["postgresql://ada:pw@h/db"]},
        {"args": ["postgresql://***@h/db"]},
    ),
}


@pytest.mark.parametrize(("config", "shown"), SHOWN.values(), ids=SHOWN)
def test_a_shown_configuration_holds_no_secret(
    config: Mapping[str, Any], shown: Mapping[str, Any]
) -> None:
    assert redact(config) == shown
