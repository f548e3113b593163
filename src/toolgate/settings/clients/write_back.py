"""Replaces the servers in the files of other clients that Toolgate serves now with Toolgate."""

import json
from collections.abc import Sequence

from toolgate.errors import SettingError
from toolgate.settings import (
    ConfigDocument,
    KeyPath,
    is_toolgate,
    parse_document,
    read_text,
    render_table,
    server_tables,
    without_table,
)
from toolgate.settings.clients.supported import Client, ClientFile, FoundServer, Launch
from toolgate.types import Json, json_array, json_object


def with_toolgate(file: ClientFile, launch: Launch, taken: Sequence[FoundServer]) -> str:
    """Return the text of a client's file with Toolgate in place of the servers that it took over.

    Everything else is preserved: other servers, other settings, and comments outside.

    Raises:
        SettingError: The file is written in a way that cannot be changed without affecting the
            rest.
    """
    text = read_text(file.path)
    document = parse_document(text, file.path)
    entry = _entry(file.client, launch)
    gone = {(server.project, server.name) for server in taken}
    if document.is_toml:
        return _toml_with_toolgate(document, entry, gone)
    if document.is_yaml:
        return _yaml_with_toolgate(document, entry, {name for _, name in gone})
    return _json_with_toolgate(document, entry, gone)


def _entry(client: Client, launch: Launch) -> Json:
    if client.has_command_list:
        return {**client.entry, "command": [launch.command, *launch.args]}
    entry = {**client.entry, client.command_key: launch.command, "args": list(launch.args)}
    return {**entry, "env": {"PATH": launch.search_path}} if client.has_own_path else entry


def _json_with_toolgate(document: ConfigDocument, entry: Json, gone: set[tuple[str, str]]) -> str:
    text = document.text
    spans = document.spans()
    edits: list[tuple[int, int, str]] = []
    entered = False
    for project in dict.fromkeys(["", *sorted({project for project, _ in gone})]):
        for path, servers in server_tables(document, project=project):
            left = {
                name: value
                for name, value in servers.items()
                if (project, name) not in gone and not is_toolgate(json_object(value))
            }
            if not project and not entered:
                left = {"toolgate": entry, **left}
                entered = True
            span = spans[path]
            edits.append((span.start, span.end, _rendered(left, text, len(path), span.start)))
    if not entered:
        start = spans[()].start + 1
        table = _rendered({"toolgate": entry}, text, 1, start)
        comma = "," if document.root else ""
        edits.append((start, start, f'{_break(text)}  "mcpServers": {table}{comma}'))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    parse_document(text, document.path)
    return text


def _toml_with_toolgate(document: ConfigDocument, entry: Json, gone: set[tuple[str, str]]) -> str:
    root = document.root
    servers = json_object(root.get("mcp_servers"))
    text = document.text
    for name, value in servers.items():
        if ("", name) in gone or is_toolgate(json_object(value)):
            text = without_table(text, ("mcp_servers", name))
    left = {
        name: value
        for name, value in servers.items()
        if ("", name) not in gone and not is_toolgate(json_object(value))
    }
    text = f"{text.rstrip()}\n\n{render_table(('mcp_servers', 'toolgate'), entry)}".lstrip()
    new_root = {**root, "mcp_servers": {**left, "toolgate": entry}}
    _check_result(document, text, new_root)
    return text


def _yaml_with_toolgate(document: ConfigDocument, entry: Json, gone: set[str]) -> str:
    """Change only the lines of replaced entries, so that all others keep their comments."""
    text, spans = document.text, document.spans()
    (path, servers), *_ = server_tables(document)
    gone = gone | {name for name, old in servers.items() if is_toolgate(json_object(old))}
    starts = sorted((spans[(*path, name)], name) for name in gone & servers.keys())
    edits: list[tuple[int, int, str]] = []
    for span, _ in starts:
        start = text.rfind("\n", 0, span.key_start) + 1
        end = text.find("\n", span.end) + 1 or len(text)
        before = text[start : span.key_start]
        new = "" if edits else _yaml_lines(entry, before, _break(text))
        edits.append((start, end, new))
    for start, end, new in reversed(edits):
        text = text[:start] + new + text[end:]
    _check_result(document, text, _yaml_root(document, path, entry, gone))
    return text


def _yaml_lines(entry: Json, before: str, end: str) -> str:
    """Render an entry that replaces one after `before`: the indentation, or that and `-`."""
    is_item = before.strip() == "-"
    indent = " " * len(before) if is_item else f"{before}  "
    rows = {"name": "toolgate", **entry} if is_item else entry
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in rows.items()]
    first = f"{before}{lines.pop(0)}" if is_item else f"{before}toolgate:"
    return "".join(f"{line}{end}" for line in (first, *(f"{indent}{line}" for line in lines)))


def _yaml_root(document: ConfigDocument, path: KeyPath, entry: Json, gone: set[str]) -> Json:
    """Return the expected value of the changed file."""
    key = str(path[0])
    whole: object = document.root[key]
    if not isinstance(whole, list):
        left = {name: old for name, old in json_object(whole).items() if name not in gone}
        return {**document.root, key: {**left, "toolgate": entry}}
    items = [json_object(item) for item in json_array(document.root[key])]
    first = next(at for at, item in enumerate(items) if item.get("name") in gone)
    items[first] = {"name": "toolgate", **entry}
    return {**document.root, key: [item for item in items if item.get("name") not in gone]}


def _check_result(document: ConfigDocument, text: str, expected: Json) -> None:
    """Reject a text with other values than expected, because the file is written unusually."""
    try:
        fits = parse_document(text, document.path).root == expected
    except SettingError:
        fits = False
    if not fits:
        raise SettingError(
            f"{document.path} is written in a way that cannot be changed automatically.",
            hint="Add Toolgate's entry there yourself; the README shows it.",
        )


def _rendered(servers: Json, text: str, depth: int, at: int) -> str:
    """Render an object for this position, with the file's indentation and line ends."""
    if "\n" not in text.strip():
        return json.dumps(servers, ensure_ascii=False)
    line = text[text.rfind("\n", 0, at) + 1 : at]
    base = line[: len(line) - len(line.lstrip())]
    unit = base[: len(base) // depth] if depth and base else "  "
    lines = json.dumps(servers, ensure_ascii=False, indent=unit).split("\n")
    return f"{_break(text)}{base}".join(lines)


def _break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
