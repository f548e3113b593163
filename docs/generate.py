"""Writes the pages of this folder that are made from the code: `python docs/generate.py`."""

import ast
import inspect
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from toolgate.settings import (
    ConnectionTable,
    ImportTable,
    ModelTable,
    PermissionTable,
    ProjectTable,
    ServerTable,
    Settings,
    ToolLimitTable,
    ToolTable,
    model,
)

FOLDER = Path(__file__).parent

INTRODUCTION = """\
# Configuration

<!-- Made by docs/generate.py from src/toolgate/settings/model.py; change it there. -->

Toolgate runs without any configuration. What is configured stands in `toolgate.toml`, which is
looked for in this order:

1. `--config FILE`
2. the file that the variable `TOOLGATE_CONFIG` names
3. `toolgate.toml` in the current folder
4. `toolgate.toml` in your configuration folder: `~/.config/toolgate` on Linux,
   `~/Library/Application Support/toolgate` on macOS, `%APPDATA%\\toolgate` on Windows

`toolgate paths` shows which one it is, `toolgate config check` says what is wrong in it, and
`toolgate init` writes one from the files of your other clients. A running gateway notices changes
of the file within two seconds; a wrong change is reported and what was in force stays in force.

```toml
version = 1
mode = "auto"
import = ["~/.cursor/mcp.json"]                # servers of a file that another client owns

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

`${env:NAME}` and `${NAME}` stand for a variable of the environment in which Toolgate runs,
`${NAME:-default}` for a default when it is not set or empty; `$${` is `${` itself. They work in all
texts of `toolgate.toml` and of imported files. `${input:some-id}`, which VS Code asks its user for,
stands for the variable `SOME_ID`. `${workspaceFolder}` and `${userHome}` are known in files that
belong to a project.

A server whose variable is missing is disabled and says why in `toolgate servers`; the others work.
A missing variable anywhere else is an error.

## Names of servers

A name has 1 to 32 characters of `A-Z a-z 0-9 _ . -` and no `__`. A server with another name is
called by the part that fits and a short hash of the whole (`My GitHub` is `My-GitHub-4fcf40`), and
keeps the original as its title. The same name in two places is an error that names both; imported
servers that are equal are taken once.
"""

IMPORTS = """\
`import` takes paths and tables. Files are read as they are: JSON with comments and trailing commas,
servers under `mcpServers`, `servers` (VS Code), `context_servers` (Zed), `[mcp_servers]` (Codex) or
`mcp.servers`. Entries that are Toolgate itself are left out; an entry that cannot be used is
disabled with its reason and stops no other. `--import FILE` does the same from the command line.

```toml
import = [
  "~/.cursor/mcp.json",
  { file = "~/.claude.json", skip = ["github"], rename = { files = "notes" } },
]
```
"""


def main() -> int:
    """Write the pages; with `--check` only say whether they are up to date."""
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
    """The reference of every key."""
    sentences = _sentences()
    top = [item for item in _keys(Settings) if not is_dataclass(item.type)]
    parts = [INTRODUCTION, "## Top of the file\n", _table(Settings, top, sentences)]
    parts += ["## `import`\n", IMPORTS, _table(ImportTable, _keys(ImportTable), sentences)]
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
        parts += [f"## `{title}`\n", f"{_capital(about)}\n", _table(cls, _keys(cls), sentences)]
    for item in _keys(Settings):
        if isinstance(item.type, type) and is_dataclass(item.type):
            about = sentences[item.type.__name__][""].partition(": ")[2]
            parts.append(f"## `[{item.name}]`\n")
            parts += [f"{_capital(about)}\n"] if about else []
            parts.append(_table(item.type, _keys(item.type), sentences))
    return "\n".join(parts)


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
    """The sentence below each field, and under an empty name that of the dataclass."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(model)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        here = found.setdefault(node.name, {"": _joined(ast.get_docstring(node) or "")})
        for field, text in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                assert isinstance(text.value, ast.Constant)
                here[field.target.id] = _joined(str(text.value.value))
    return found


def _kind(kind: object) -> str:
    names: dict[object, str] = {
        bool: "true or false",
        int: "whole number",
        float: "number",
        str: "text",
    }
    if kind in names:
        return names[kind]
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in inside)
    if origin is tuple:
        return "list of tables" if is_dataclass(inside[0]) else "list of texts"
    if isinstance(kind, UnionType):
        return " or ".join(_kind(one) for one in inside if one is not NoneType)
    return "table"


def _default(item: "Field[Any]") -> str:
    value = item.default
    if item.default_factory is not MISSING:
        value = item.default_factory()
    if value is MISSING:
        return "needed"
    match value:
        case None | "" | () | {}:
            return "none"
        case bool():
            return "`true`" if value else "`false`"
        case str():
            return f'`"{value}"`'
        case tuple():
            inside = ", ".join(f'"{one}"' for one in value)
            return f"`[{inside}]`"
        case _:
            return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _joined(text: str) -> str:
    return " ".join(text.split())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
