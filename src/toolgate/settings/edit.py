"""Changes to configuration files that preserve everything else, including comments.

Texts are edited, never regenerated from their values; each edited text is parsed and compared
with the expected result before it replaces the file.
"""

import contextlib
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from toolgate.errors import SettingError, UnknownServerError
from toolgate.settings import renamed_keys
from toolgate.settings.config_file import (
    ConfigDocument,
    key_of,
    parse_document,
    read_text,
    text_encoding,
)
from toolgate.settings.servers.server_entry import server_name
from toolgate.settings.table_reader import read_table
from toolgate.settings.tables.servers import ServerTable
from toolgate.types import Json, json_object

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

NEW_FILE = "version = 1\n"
"""Text of a new `toolgate.toml`, before anything is added."""


def add_server_to_file(path: Path, name: str, config: Mapping[str, Any]) -> None:
    """Append a server to a `toolgate.toml`, which is created if it does not exist.

    Args:
        path: The file; a link is followed.
        name: Name of the server.
        config: Keys of `[server.NAME]`; variables are written unchanged.

    Raises:
        SettingError: The file is malformed or cannot be written, it already has this name, or a
            key or value of `config` is wrong.
    """
    _check(name, config)
    text = read_text(path) if path.exists() else NEW_FILE
    root = parse_document(text, path, is_toml=True).root
    servers = root.get("server", {})
    if server_name(name) in map(server_name, json_object(servers)):
        raise SettingError(
            f"The server name {name!r} is already used in {path}.",
            hint="Choose another name, or change the server there.",
        )
    expected = {**root, "server": {**cast("Json", servers), name: _plain(config)}}
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    replace_file(path, f"{text}{gap}{render_table(('server', name), config)}", expected)


def remove_server_from_file(path: Path, name: str) -> None:
    """Delete a server from a `toolgate.toml`, with the comment lines directly above it.

    Raises:
        UnknownServerError: The file has no such server.
        SettingError: The file is malformed, cannot be written, or the server is written in a way
            that can only be edited by hand.
    """
    text = read_text(path)
    root = parse_document(text, path, is_toml=True).root
    servers = json_object(root.get("server"))
    written = _written_name(path, servers, name)
    left = {other: config for other, config in servers.items() if other != written}
    expected = (
        {**root, "server": left} if left else {k: v for k, v in root.items() if k != "server"}
    )
    replace_file(path, without_table(text, ("server", written)), expected)


def change_server_in_file(path: Path, name: str, changes: Mapping[str, Any]) -> None:
    """Set keys of a server in a `toolgate.toml`; everything else is preserved, including comments.

    Args:
        path: The file; a link is followed.
        name: Name of the server.
        changes: `enabled`, and the complete `tool_permissions`. None deletes a key.

    Raises:
        UnknownServerError: The file has no such server.
        SettingError: The file is malformed, cannot be written, or the server is written in a way
            that can only be edited by hand.
    """
    text = read_text(path)
    root = parse_document(text, path, is_toml=True).root
    servers = json_object(root.get("server"))
    written = _written_name(path, servers, name)
    before = json_object(servers[written])
    for key, value in changes.items():
        table = ("server", written, key)
        if key == "tool_permissions" and table in _headers(text):
            inside = json_object(value)
            for tool in {**json_object(before.get(key)), **inside}:
                text = _with_value(text, table, tool, inside.get(tool))
        else:
            text = _with_value(text, table[:-1], key, value)
    after = {k: v for k, v in {**before, **changes}.items() if v is not None}
    replace_file(path, text, {**root, "server": {**servers, written: after}})


def change_tool_in_file(path: Path, name: str, tool: str, changes: Mapping[str, Any]) -> None:
    """Set keys of `[server.NAME.tools.TOOL]` in a `toolgate.toml`; everything else is preserved.

    Args:
        path: The file; a link is followed.
        name: Name of the server.
        tool: The tool's own name.
        changes: Values by key. None deletes a key.

    Raises:
        UnknownServerError: The file has no such server.
        SettingError: As for `change_server_in_file`.
    """
    text = read_text(path)
    root = parse_document(text, path, is_toml=True).root
    servers = json_object(root.get("server"))
    written = _written_name(path, servers, name)
    tools = json_object(json_object(servers[written]).get("tools"))
    was = json_object(tools.get(tool))
    changes = {key: value for key, value in changes.items() if value != was.get(key)}
    table = ("server", written, "tools", tool)
    for key, value in reversed(list(changes.items())):  # each is inserted at the top of the table
        inside = (*table, key)
        if all(header[: len(inside)] != inside for header in _headers(text)):
            text = _with_value(text, table, key, value)
        elif value is None:
            text = without_table(text, inside)
        else:
            text = _with_tables(text, inside, json_object(was.get(key)), json_object(value))
    after = {k: v for k, v in {**was, **changes}.items() if v is not None}
    text = text if after else _without_bare_header(text, table)
    if after or table in _headers(text):
        tools = {**tools, tool: after}
    else:
        tools = {name: value for name, value in tools.items() if name != tool}
    server = {key: value for key, value in json_object(servers[written]).items() if key != "tools"}
    if tools:
        server["tools"] = tools
    replace_file(path, text, {**root, "server": {**servers, written: server}})


def tool_in_file(path: Path, name: str, tool: str) -> Json:
    """Return the table `[server.NAME.tools.TOOL]` of a file as written; empty if there is none.

    Raises:
        UnknownServerError: The file has no such server.
        SettingError: The file is malformed.
    """
    servers = json_object(parse_document(read_text(path), path, is_toml=True).root.get("server"))
    server = json_object(servers[_written_name(path, servers, name)])
    return json_object(json_object(server.get("tools")).get(tool))


def _written_name(path: Path, servers: Json, name: str) -> str:
    """Return the name of a server in the file, which Toolgate may have changed.

    Raises:
        UnknownServerError: The file has no such server.
    """
    written = next((entry for entry in servers if name in {entry, server_name(entry)}), None)
    if written is None:
        raise UnknownServerError(
            f"{path} has no server {name!r}.", allowed=f"There: {', '.join(servers) or 'none'}."
        )
    return written


def with_setting(text: str, path: Path, key: Sequence[str], value: object) -> str:
    """Return the text of a `toolgate.toml` with one setting changed and everything else preserved.

    Args:
        text: The text.
        path: The file, for messages.
        key: Names of the tables and the key, such as `("discovery", "budget_tokens")`.
        value: The new value; None deletes the key.

    Raises:
        SettingError: The file is malformed, or written in a way that can only be edited by hand.
    """
    *tables, name = key
    root = parse_document(text, path, is_toml=True).root
    expected: Json = {**root}
    table = expected
    for part in tables:
        table[part] = {**json_object(table.get(part))}
        table = table[part]
    table[name] = value
    if value is None:
        del table[name]
    changed = _with_value(text, tuple(tables), name, value)
    try:
        fits = tomllib.loads(changed) == _without_empty(expected, root)
    except ValueError:
        fits = False
    if not fits:
        raise SettingError(
            f"{path} is written in a way that cannot be changed without touching the rest.",
            hint="Change it there by hand.",
        )
    return changed


def _without_empty(table: Json, before: Json) -> Json:
    """Remove tables that are empty now and were not there before."""
    return {name: value for name, value in table.items() if value != {} or name in before}


def render_table(path: Sequence[str], config: Mapping[str, Any]) -> str:
    """Render a table and its inner table `tools`; other inner tables are written on one line."""
    name = ".".join(map(_key, path))
    lines = [f"[{name}]"]
    for key, value in config.items():
        if key != "tools" and value is not None:
            lines.append(f"{_key(key)} = {render_value(value)}")
    for tool, table in config.get("tools", {}).items():
        lines += ["", f"[{name}.tools.{_key(tool)}]"]
        lines += [f"{_key(key)} = {render_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def render_value(value: object) -> str:
    """Render a value as TOML on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # A JSON string is a TOML string, except that TOML requires DEL to be escaped.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            pairs = cast("Mapping[str, object]", value).items()
            inside = ", ".join(f"{_key(key)} = {render_value(item)}" for key, item in pairs)
            return f"{{ {inside} }}" if inside else "{}"
        case _:
            return f"[{', '.join(map(render_value, cast('Sequence[object]', value)))}]"


def set_import(text: str, path: Path, values: Sequence[object]) -> str:
    """Return the text of a `toolgate.toml` with `import` set to these values.

    Raises:
        SettingError: The text is malformed, or `import` is written in a way that cannot be
            replaced.
    """
    document = parse_document(text, path, is_toml=True)
    lines = text.splitlines(keepends=True)
    inside = "".join(f"  {render_value(value)},\n" for value in values)
    new = f"import = [\n{inside}]\n"
    if "import" not in document.root:
        at = _first_table(lines)
        before = "".join(lines[:at])
        after = f"\n{''.join(lines[at:])}" if lines[at:] else ""
        gap = "" if not before or before.endswith("\n") else "\n"
        text = f"{before}{gap}{new}{after}"
    else:
        first = document.line(("import",)) - 1
        last = first
        while last < len(lines) and not _is_whole("".join(lines[first : last + 1])):
            last += 1
        text = "".join([*lines[:first], new, *lines[last + 1 :]])
    expected = {**document.root, "import": tomllib.loads(new)["import"]}
    if parse_document(text, path, is_toml=True).root != expected:
        raise SettingError(
            f"{path}: import is written in a way that cannot be replaced.",
            hint=f"Write there by hand: {new}",
        )
    return text


def switch_pack(path: Path, name: str, *, on: bool, by_default: bool) -> bool:
    """Enable or disable a pack, in `[packs] enable` and `disable` of a `toolgate.toml`.

    Args:
        path: The file; it is created if it does not exist.
        name: Name of the pack.
        on: Whether to enable it.
        by_default: Whether it is enabled if neither list names it.

    Returns:
        Whether the file was changed.

    Raises:
        SettingError: The file is malformed, cannot be written, or the lists are written in a way
            that can only be edited by hand.
    """
    text = read_text(path) if path.exists() else NEW_FILE
    root = parse_document(text, path, is_toml=True).root
    packs = json_object(root.get("packs"))
    changed = text
    wanted_packs = dict(packs)
    for key, belongs in (("enable", on and not by_default), ("disable", by_default and not on)):
        before = cast("list[object]", packs.get(key, []))
        after = [*(pack for pack in before if pack != name), *([name] if belongs else [])]
        if after == before or (not after and key not in packs):
            continue
        changed = _with_value(changed, ("packs",), key, after)
        wanted_packs[key] = after
    if changed != text:
        replace_file(path, changed, {**root, "packs": wanted_packs})
    return changed != text


def _with_value(text: str, table: tuple[str, ...], key: str, value: object) -> str:
    """Return the text with a key set, or deleted if None; a multi-line value becomes one line."""
    lines = text.splitlines(keepends=True)
    new = [] if value is None else [f"{_key(key)} = {render_value(value)}\n"]
    head = next((at for at, line in enumerate(lines) if _header(line) == table), None)
    if not table:
        head = -1
    if head is None:
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[{'.'.join(map(_key, table))}]\n{''.join(new)}" if new else text
    for first in range(head + 1, len(lines)):
        if _header(lines[first]):
            break
        written = re.match(r"\s*(\"[^\"]*\"|'[^']*'|[A-Za-z0-9_-]+)\s*=", lines[first])
        if written is not None and key_of(written[1]) == (key,):
            last = first
            while last + 1 < len(lines) and not _is_whole("".join(lines[first : last + 1])):
                last += 1
            return "".join([*lines[:first], *new, *lines[last + 1 :]])
    at = head + 1 if table else _first_table(lines)
    if at and not lines[at - 1].endswith("\n"):
        lines[at - 1] += "\n"
    return "".join([*lines[:at], *new, *lines[at:]])


def _with_tables(text: str, path: tuple[str, ...], before: Json, after: Json) -> str:
    """Return the text with the tables in the table `path` changed, added and removed."""
    headers = _headers(text)
    for name in {**before, **after}:
        table, old, new = (*path, name), json_object(before.get(name)), after.get(name)
        if new == old:
            continue
        if table in headers and new is None:
            text = without_table(text, table)
        elif table in headers:
            for key in {**old, **json_object(new)}:
                if json_object(new).get(key) != old.get(key):
                    text = _with_value(text, table, key, json_object(new).get(key))
        elif path in headers:
            text = _with_value(text, path, name, new)
        else:
            text = f"{text.rstrip()}\n\n{render_table(table, json_object(new))}"
    return text


def _headers(text: str) -> set[tuple[str, ...]]:
    """Return the paths of all tables with a header of their own."""
    return set(map(_header, text.split("\n")))


def _header(line: str) -> tuple[str, ...]:
    """Return the path of a table header; empty for other lines."""
    bare = line.partition("#")[0].strip()
    return key_of(bare.strip("[]")) if bare.startswith("[") and bare.endswith("]") else ()


def migrate_text(text: str, path: Path) -> tuple[str, list[str]]:
    """Rename old keys in a `toolgate.toml`. Returns the text and a sentence for each change.

    Raises:
        SettingError: The text is malformed, or an old key can only be edited by hand.
    """
    document = parse_document(text, path, is_toml=True)
    changes: list[str] = []
    for renamed in renamed_keys.RENAMED:
        for path_found in renamed_keys.matches(document.root, renamed.old):
            line = parse_document(text, path, is_toml=True).line(path_found)
            lines = text.splitlines(keepends=True)
            if renamed.table is not None:
                text = _moved(lines, line, path_found, renamed)
                changes.append(
                    f"line {line}: {'.'.join(path_found)} is now {renamed.new}, at the top"
                )
                continue
            old = re.compile(rf"(?<![A-Za-z0-9_-]){re.escape(path_found[-1])}(?![A-Za-z0-9_-])")
            lines[line - 1] = old.sub(renamed.new, lines[line - 1], count=1)
            text = "".join(lines)
            changes.append(f"line {line}: {'.'.join(path_found)} is now {renamed.new}")
    root = parse_document(text, path, is_toml=True).root
    if any(renamed_keys.matches(root, renamed.old) for renamed in renamed_keys.RENAMED):
        raise SettingError(
            f"{path}: an outdated key cannot be renamed automatically.",
            hint="Rename it yourself; toolgate config check names it.",
        )
    return text, changes


def _moved(
    lines: list[str], number: int, key_path: tuple[str, ...], renamed: renamed_keys.RenamedKey
) -> str:
    """Return the text with a line moved to the top of the file under its new key.

    What can only be moved by hand is left unchanged: an inline table, or a table below the top
    level.
    """
    name, equals, value = lines[number - 1].partition("=")
    if renamed.table or not equals or key_of(name)[-1:] != key_path[-1:]:
        return "".join(lines)
    left = [*lines[: number - 1], *lines[number:]]
    at = _first_table(left)
    while at and not left[at - 1].strip():
        at -= 1
    line = f"{renamed.new} ={value.rstrip()}\n"
    return "".join([*left[:at], line, *([] if left[at : at + 1] == ["\n"] else ["\n"]), *left[at:]])


def _first_table(lines: Sequence[str]) -> int:
    """Return the line of the first table or of the comments directly above it; the end if none."""
    heads = (at for at, line in enumerate(lines) if line.lstrip().startswith("["))
    at = next(heads, len(lines))
    while at and lines[at - 1].lstrip().startswith("#"):
        at -= 1
    return at


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically.

    Its mode and encoding are preserved; a new file is in UTF-8 and accessible only to its owner.
    A link is followed.

    Raises:
        SettingError: The folder or the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        encoding = text_encoding(target.read_bytes()[:3]) if target.exists() else "utf-8"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode(encoding))
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(mode)
        draft.replace(target)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise SettingError(
            f"{path} cannot be written: {reason}.",
            hint="Make the file and its folder writable for this user.",
        ) from error


def _check(name: str, config: Mapping[str, Any]) -> None:
    document = ConfigDocument(path=Path(f"server {name!r}"), text="", root={}, is_toml=False)
    read_table(ServerTable, dict(config), document)


def _plain(config: Mapping[str, Any]) -> Json:
    """Return the table as it is after writing and parsing it as TOML."""
    return tomllib.loads(render_table(("server", "x"), config))["server"]["x"]


def replace_file(path: Path, text: str, expected: Json) -> None:
    """Write a TOML text if it has the expected values.

    Raises:
        SettingError: The text has other values, or cannot be written.
    """
    try:
        fits = tomllib.loads(text) == expected
    except ValueError:
        fits = False
    if not fits:
        raise SettingError(
            f"{path} is written in a way that cannot be changed without touching the rest.",
            hint="Change it there by hand.",
        )
    write_text(path, text)


def _is_whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except ValueError:
        return False
    return True


def without_table(text: str, path: tuple[str, ...]) -> str:
    """Return the text without a table, its inner tables, and the comments directly above.

    Comments at the start of the file are preserved, since they describe all of it.
    """
    lines_left: list[str] = []
    pending: list[str] = []  # blank lines and comments inside that may belong to the table after it
    inside = False
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        header = _header(line)
        if header and header[: len(path)] == path:
            above = len(lines_left)
            while above and lines_left[above - 1].lstrip().startswith("#"):
                above -= 1
            lines_left = lines_left[:above] if above else lines_left
            inside, pending = True, []
        elif header and inside:
            inside = False
            if pending and not pending[0].strip() and not (lines_left and lines_left[-1].strip()):
                pending = pending[1:]
            lines_left += pending
        elif inside:
            pending = [*pending, line] if bare.startswith("#") else [line] if not bare else []
        if not inside:
            lines_left.append(line)
    while inside and lines_left and not lines_left[-1].strip():
        lines_left.pop()
    return "".join(lines_left)


def _without_bare_header(text: str, path: tuple[str, ...]) -> str:
    """Return the text without the header of a table that has no keys; one with comments stays."""
    lines = text.splitlines(keepends=True)
    at = next((at for at, line in enumerate(lines) if _header(line) == path), None)
    if at is None:
        return text
    above, below = lines[at - 1 : at], lines[at + 1 : at + 2]
    is_bare = not below or not below[0].strip() or _header(below[0])
    if not is_bare or (above and above[0].lstrip().startswith("#")):
        return text
    is_blank_above = above and not above[0].strip()
    return "".join([*lines[: at - 1 if is_blank_above else at], *lines[at + 1 :]])


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else render_value(name)
