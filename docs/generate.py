"""Generates the pages of this folder that come from the code: `python docs/generate.py`."""

import ast
import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from toolgate.settings import (
    AuditSettings,
    ChatSettings,
    ConnectionTable,
    DiscoverySettings,
    ImportTable,
    LogSettings,
    ModelTable,
    PackSettings,
    PermissionTable,
    ProjectTable,
    ResultSettings,
    SearchSettings,
    ServerTable,
    ServeSettings,
    Settings,
    StoreSettings,
    ToolLimitTable,
    ToolTable,
    tables,
)

FOLDER = Path(__file__).parent

INTRODUCTION = """\
# Configuration

<!-- Made by docs/generate.py from src/toolgate/settings/tables; change it there. -->

Toolgate runs without any configuration. Settings are in `toolgate.toml`, which Toolgate looks for
in this order:

1. `--config FILE`
2. the file that the variable `TOOLGATE_CONFIG` names
3. `toolgate.toml` in the current folder
4. `toolgate.toml` in your configuration folder: `~/.config/toolgate` on Linux,
   `~/Library/Application Support/toolgate` on macOS, `%APPDATA%\\toolgate` on Windows

`toolgate paths` shows which file is used, `toolgate config check` reports errors in it, and
`toolgate init` writes one from the configuration of your MCP clients. A running gateway applies
changes within two seconds. If a change is invalid, it logs the error and keeps the old settings.

```toml
version = 1
mode = "auto"
import = ["~/.cursor/mcp.json"]                # servers from another client's file

[server.github]                                # one table per server, keys as in mcpServers
command = "npx"
args = ["-y", "@modelcontextprotocol/server-github"]
env = { GITHUB_PERSONAL_ACCESS_TOKEN = "${env:GITHUB_TOKEN}" }

[server.docs]
url = "https://example.org/mcp"
headers = { Authorization = "Bearer ${env:DOCS_TOKEN}" }
timeout_s = 120
```

## Variables

`${env:NAME}` and `${NAME}` insert an environment variable of the Toolgate process;
`${NAME:-default}` inserts a default if the variable is unset or empty; `$${` is a literal `${`.
Variables work in all strings of `toolgate.toml` and of imported files. In imported files,
`${input:some-id}` (a prompt in VS Code) reads the variable `SOME_ID`. `${workspaceFolder}` and
`${userHome}` work in files that belong to a project. In tables of servers, `${secret:NAME}` is a
[secret of this server in the encrypted store](credentials.md#secrets-in-arguments-and-urls).

A server with a missing variable is disabled, and `toolgate servers` shows the reason; other servers
work. A missing variable anywhere else is an error.

## Server names

A name has 1 to 32 characters of `A-Z a-z 0-9 _ . -` and no `__`. Other names are shortened to the
valid part plus a hash (`My GitHub` becomes `My-GitHub-4fcf40`); the original becomes the title.
`toolgate init` writes names without a hash (`My-GitHub`) if only spaces and punctuation had to be
replaced. The same name in two places is an error that names both places; identical imported servers
count once.
"""

IMPORTS = """\
`import` takes paths and tables. Supported are the configuration files of MCP clients: JSON, also
with comments and trailing commas, with servers under `mcpServers`, `servers` (VS Code),
`context_servers` (Zed) or `mcp.servers`, and TOML with `[mcp_servers]` (Codex). Entries for
Toolgate itself are skipped. An invalid entry is disabled, and `toolgate servers` shows the reason;
the other servers work. `--import FILE` does the same from the command line.

```toml
import = [
  "~/.cursor/mcp.json",
  { file = "~/.claude.json", skip = ["github"], rename = { files = "notes" } },
]
```
"""


COMMON: tuple[tuple[str, type, tuple[str, ...]], ...] = (
    ("", Settings, ("mode", "pinned", "optimization", "auth", "import")),
    (
        "[server.NAME]",
        ServerTable,
        (
            *("command", "args", "env", "cwd", "url", "headers", "type", "timeout_s"),
            *("enabled", "pinned", "project"),
        ),
    ),
    ("[serve]", ServeSettings, ("host", "port", "allowed_hosts", "trusted_proxies")),
    ("[store]", StoreSettings, ("url", "audit_days")),
    ("[search]", SearchSettings, ("embedder",)),
    ("[discovery]", DiscoverySettings, ("budget_tokens", "max_results")),
    ("[results]", ResultSettings, ("paging",)),
    ("[audit]", AuditSettings, ("enabled", "keep_queries")),
    ("[log]", LogSettings, ("level", "format", "file")),
    ("[packs]", PackSettings, ("paths", "enable")),
    ("[connections.NAME]", ConnectionTable, ("url",)),
    ("[models.NAME]", ModelTable, ("provider", "model", "url", "key")),
    ("[chat]", ChatSettings, ("model", "max_cost")),
)
"""The settings that are set most often, by table."""


def _common(sentences: Mapping[str, Any]) -> str:
    lines = ["| Table | Key | Default | Meaning |", "| --- | --- | --- | --- |"]
    for title, cls, names in COMMON:
        items = {item.name: item for item in _keys(cls)}
        for name in names:
            if name == "import":  # a keyword of Python, so no field of the dataclass
                meaning, default = "Files with more servers; see [import](#import).", "`[]`"
            else:
                meaning = sentences[cls.__name__][name].replace("|", "\\|")
                default = _default(items[name])
            lines.append(f"| {f'`{title}`' if title else ''} | `{name}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the pages; with `--check`, only report whether they are up to date."""
    pages = {"configuration.md": configuration()}
    stale = [name for name, text in pages.items() if _read(FOLDER / name) != text]
    if "--check" not in sys.argv[1:]:
        for name in stale:
            (FOLDER / name).write_text(pages[name], encoding="utf-8")
            print(f"wrote docs/{name}")
        return 0
    for name in stale:
        print(f"docs/{name} is not up to date; run: python docs/generate.py")
    return 1 if stale else 0


def configuration() -> str:
    """Return the reference of all keys."""
    sentences = _sentences()
    top = [item for item in _keys(Settings) if not is_dataclass(item.type)]
    parts = [INTRODUCTION, "## Common settings\n", _common(sentences)]
    parts.append("## Advanced settings\n")
    parts.append("All other settings, by table. Most installations do not need them.\n")
    parts += ["### Top of the file\n", *_rest(Settings, top, sentences)]
    parts += ["### `import`\n", IMPORTS, *_rest(ImportTable, _keys(ImportTable), sentences)]
    for title, cls in (
        ("[server.NAME]", ServerTable),
        ("[server.NAME.tools.TOOL]", ToolTable),
        ("[connections.NAME]", ConnectionTable),
        ("[models.NAME]", ModelTable),
        ("[project.NAME]", ProjectTable),
        ("[[permission]]", PermissionTable),
        ('[limits.tools."PATTERN"]', ToolLimitTable),
    ):
        about = sentences[cls.__name__][""].partition(": ")[2]
        parts += [f"### `{title}`\n", f"{_capital(about)}\n"]
        parts += _rest(cls, _keys(cls), sentences)
    for item in _keys(Settings):
        if isinstance(item.type, type) and is_dataclass(item.type):
            about = sentences[item.type.__name__][""].partition(": ")[2]
            parts.append(f"### `[{item.name}]`\n")
            parts += [f"{_capital(about)}\n"] if about else []
            parts += _rest(item.type, _keys(item.type), sentences)
    return "\n".join(parts)


def _rest(cls: type, keys: list["Field[Any]"], sentences: Mapping[str, Any]) -> list[str]:
    """The keys of a table that are not among the common settings, and the names of those."""
    common = [name for _, owner, names in COMMON for name in names if owner is cls]
    parts: list[str] = []
    if common:
        names = ", ".join(f"`{name}`" for name in common)
        parts.append(f"See also the [common settings](#common-settings): {names}.\n")
    left = [item for item in keys if item.name not in common]
    return [*parts, _table(cls, left, sentences)] if left else parts


def _table(cls: type, keys: list["Field[Any]"], sentences: Mapping[str, Any]) -> str:
    lines = ["| Key | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    for item in keys:
        meaning = sentences[cls.__name__][item.name].replace("|", "\\|")
        kind = _kind(item.type).replace("|", "\\|")
        lines.append(f"| `{item.name}` | {kind} | {_default(item)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _keys(cls: Any) -> list["Field[Any]"]:
    return [item for item in fields(cls) if "derived" not in item.metadata]


def _sentences() -> dict[str, dict[str, str]]:
    """The sentence below each field; under an empty name, that of the dataclass."""
    sentences: dict[str, dict[str, str]] = {}
    modules = sorted(Path(tables.__file__).parent.glob("*.py"))
    for node in [node for path in modules for node in ast.parse(path.read_text("utf-8")).body]:
        if not isinstance(node, ast.ClassDef):
            continue
        here = sentences.setdefault(node.name, {"": _joined(ast.get_docstring(node) or "")})
        for field, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                assert isinstance(text.value, ast.Constant)
                here[field.target.id] = _joined(str(text.value.value))
    return sentences


def _kind(kind: object) -> str:
    names: dict[object, str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
    }
    if kind in names:
        return names[kind]
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{word}`" for word in inside if word)
    if origin is tuple:
        return "list of tables" if is_dataclass(inside[0]) else "list of strings"
    if isinstance(kind, UnionType):
        return " or ".join(_kind(one) for one in inside if one is not NoneType)
    return "table"


def _default(item: "Field[Any]") -> str:
    value = item.default
    if item.default_factory is not MISSING:
        value = item.default_factory()
    if value is MISSING:
        return "required"
    match value:
        case None | "" | () | {}:
            return "none"
        case bool():
            return "`true`" if value else "`false`"
        case str():
            return f'`"{value}"`'
        case tuple():
            return f"`{json.dumps(value)}`"
        case int():
            return f"`{value}`"
        case float():
            return f"`{value:g}`"
        case _ if is_dataclass(value):  # a table with its defaults in its own section
            return "none"
        case _:
            raise TypeError(f"{item.name}: no spelling in TOML is known for {value!r}")


def _joined(text: str) -> str:
    return " ".join(text.split())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
