"""Parse what people paste to add a server: a command line, JSON snippet or URL, and a name."""

import re
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePath
from typing import cast
from urllib.parse import urlsplit

from toolgate.cli.terminal._output import note
from toolgate.errors import ArgumentError
from toolgate.settings import ServerTable, translate
from toolgate.settings.notations import jsonc
from toolgate.types import Json, json_object

NAME_END = "--"
"""Separates the name of a server from its command line."""

_MAX_NAME_CHARS = 32
"""Maximum length of a server's name, as in the settings."""

_MAX_SHOWN_CHARS = 80
"""Characters of a text that an error message repeats (chosen)."""

_STARTERS = frozenset(
    {"npx", "uvx", "pipx", "bunx", "docker", "podman", "uv", "bun", "deno", "mcp-remote"}
)
"""Programs whose name does not identify the server that they start."""

_INTERPRETERS = frozenset(
    {"node", "python", "python3", "env", "sh", "bash", "cmd", "powershell", "pwsh"}
)

_VERBS = frozenset({"run", "exec", "dlx", "tool", "x", "/c", *_STARTERS})
"""Words between such a program and the server: `uv run`, `cmd /c npx`."""

_OPTIONS_WITH_VALUE = frozenset(
    {"-e", "--env", "-v", "--volume", "--name", "-p", "--publish", "--network", "--from", "--with"}
    | {"--mount", "--env-file", "-w", "--workdir", "--python", "--spec", "--directory", "--package"}
)
"""Options of these programs that are followed by a value."""

_SCOPES = frozenset({"-s", "--scope"})
"""Options of other clients that choose one of their files."""

_SNIPPET = Path("pasted.json")
_OWN_KEYS = frozenset(field.name for field in fields(ServerTable)) - {
    "command",
    "args",
    "type",
    "disabled",
    "enabled",
}
"""Keys of `[server.NAME]` that an entry in a client's form may have as well; `translate` converts
those that clients write in other forms."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""Start of a URL of any scheme; the settings say which are allowed."""
_NOISE = re.compile(r"^(?:mcp[-_])?(?:server[-_])?(?=\w)")
"""Meaningless start of a package name: `mcp-server-`."""


@dataclass(frozen=True)
class Named:
    """What was pasted, and the name in front of it."""

    name: str
    """Name of the server; empty if none was given."""

    words: Sequence[str]
    """A command with its arguments, a URL, JSON, or `-`."""

    has_options: bool = False
    """Whether options of Toolgate may follow the first word, since it is not a command line."""


def without_client(words: Sequence[str]) -> list[str]:
    """Remove the start of another client's command: `claude mcp add -s user NAME -- COMMAND`.

    Documentation pages show it often, and what follows has the form that `toolgate add` takes.
    Its scope, which is about that client's files, is removed, too.
    """
    if list(words[1:2]) != ["mcp"] or words[2:3] not in (["add"], ["add-json"]):
        return list(words)
    left: list[str] = []
    rest = iter(words[3:])
    for word in rest:
        if word == NAME_END:
            return [*left, word, *rest]
        if word in _SCOPES:
            next(rest, None)
        elif word.partition("=")[0] not in _SCOPES:
            left.append(word)
    return left


def named(words: Sequence[str], options: Collection[str] = ()) -> Named:
    """Separate the name from what is added: `NAME -- COMMAND`, `NAME URL`, `NAME JSON`.

    Without `--`, a first word that starts a program is the command. `NAME npx ...` has a name
    unless there is a program called NAME: many people leave `--` out.

    Args:
        words: Words of the command line, starting with the first that is not an option.
        options: Options of Toolgate that may follow a name.
    """
    first, second = (*words[:2], "", "")[:2]
    if _is_document(first):
        return Named("", words, has_options=True)
    may_be_name = not _starts_program(first)
    if second == NAME_END or (may_be_name and NAME_END in words):
        end = list(words).index(NAME_END)
        return Named(first, words[end + 1 :], has_options=True)
    if may_be_name and _is_document(second):
        return Named(first, words[1:], has_options=True)
    if may_be_name and shutil.which(first) is None:
        if second.partition("=")[0] in options:
            return Named(first, words[1:], has_options=True)
        if _starts_program(second):
            return Named(first, words[1:])
    return Named("", words)


def read_servers(words: Sequence[str], name: str = "") -> dict[str, Json]:
    """Parse servers, each as a table of the configuration, by name.

    Args:
        words: A command with its arguments, as separate words or in one text; a URL; or JSON: an
            `mcpServers` document, a part of it, or a single server.
        name: Name of the server; if empty, one is derived.

    Raises:
        ArgumentError: The words describe no server, or `name` is given for several.
    """
    text = " ".join(words).strip()
    if text.startswith(("{", '"')):
        servers = _from_json(text)
    elif _URL.match(text) and len(text.split()) == 1:
        servers = {_name_of_url(text): {"url": text}}
    else:
        command = _without_prompt(_split(text) if len(words) == 1 else list(words))
        if not command:
            raise _unreadable(text)
        if len(command) == 1 and not name and not _starts_program(text) and not shutil.which(text):
            raise _is_no_program(text)
        servers = {_name_of_command(command): {"command": command[0], "args": command[1:]}}
    if not name:
        return servers
    if len(servers) != 1:
        raise ArgumentError(
            f"The name {name!r} fits one server, but the snippet has {len(servers)}.",
            allowed=f"Servers of the snippet: {', '.join(servers)}.",
            hint="Leave the name out.",
        )
    return {name: next(iter(servers.values()))}


def _from_json(text: str) -> dict[str, Json]:
    """Parse the servers of a snippet in any form that documentation pages show."""
    try:
        document: object = jsonc.parse(text)
    except ValueError as error:
        try:  # "name": {...}, without the braces around it
            document = jsonc.parse(f"{{{text.rstrip().rstrip(',')}}}")
        except ValueError:
            raise ArgumentError(
                f"The snippet is not valid JSON: {error}.",
                hint="Put it in single quotes, so that the shell keeps the double quotes.",
            ) from error
    if not isinstance(document, dict):
        raise _unreadable(text)
    body = cast("Json", document)
    if isinstance(body.get("mcp"), dict) and "servers" in json_object(body["mcp"]):
        body = json_object(body["mcp"])
    for key in ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp"):
        if isinstance(body.get(key), dict):
            body = {name: _converted(name, v) for name, v in json_object(body[key]).items()}
            break
    if _is_server(body):
        command = body.get("command")
        is_url = not isinstance(command, str)
        derived = (
            _name_of_url(str(body.get("url") or body.get("serverUrl")))
            if is_url
            else _name_of_command([command, *map(str, cast("list[object]", body.get("args", [])))])
        )
        return {derived: body}
    servers = {_clean(key): json_object(value) for key, value in body.items() if _is_server(value)}
    if not servers or len(servers) != len(body):
        raise _unreadable(text)
    return servers


def _converted(name: str, entry: object) -> Json:
    """Convert an entry from a client's file as `init` does; keys of our own stay.

    Says what is left out: it may be a misspelled key.
    """
    server = json_object(entry)
    own = {key: value for key, value in server.items() if key in _OWN_KEYS}
    translation = translate(server, _SNIPPET)
    ignored = [
        key
        for key in server.keys() - own.keys()
        if translate({k: server[k] for k in server if k != key}, _SNIPPET) == translation
    ]
    if ignored:
        note(f"Not taken from {name}: {', '.join(sorted(ignored))}. Toolgate has no such settings.")
    for notice in translation.notices:
        note(f"{name}: {notice}.")
    return {**own, **translation.config}


def _is_server(value: object) -> bool:
    return isinstance(value, Mapping) and any(
        isinstance(cast("Json", value).get(key), str) for key in ("command", "url", "serverUrl")
    )


def _is_document(word: str) -> bool:
    """Whether a word is a URL, begins JSON, or stands for standard input."""
    return word == "-" or word.lower().startswith(("http://", "https://", "{", '"'))


def _starts_program(word: str) -> bool:
    """Whether a word is a path, or a program that is known to start servers."""
    program = PurePath(word).stem.lower()
    return any(char in word for char in "/\\$ ") or program in _STARTERS | _INTERPRETERS


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ArgumentError(
            f"{_shortened(text)} cannot be read as a command line: {error}.",
            hint="Close the quotes.",
        ) from error


def _without_prompt(command: list[str]) -> list[str]:
    """Remove the `$` that documentation pages show before a command."""
    return command[1:] if command[:1] == ["$"] else command


def _name_of_url(url: str) -> str:
    """Derive a name from a URL: `https://mcp.linear.app/sse` is `linear`."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    labels = [label for label in host.split(".") if label not in {"mcp", "www", "api", "server"}]
    if not host or not labels:
        raise ArgumentError(f"{url!r} is not a URL with a host.", hint="Like https://host/mcp.")
    is_address = all(label.isdigit() for label in labels) or ":" in host
    return _clean(host if is_address or len(labels) == 1 else labels[-2])


def _name_of_command(command: Sequence[str]) -> str:
    """Derive a name from a command: `npx -y @modelcontextprotocol/server-github` is `github`."""
    program = PurePath(command[0]).stem.lower()
    if program not in _STARTERS | _INTERPRETERS:
        return _clean(program)
    skip = False
    for word in command[1:]:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in _OPTIONS_WITH_VALUE
        elif program == "env" and ("=" in word or word in _INTERPRETERS):
            continue
        elif word.startswith(("http://", "https://")):
            return _name_of_url(word)
        elif _package_name(word) not in _VERBS:
            return _clean(_package_name(word))
    return _clean(program)


def _package_name(word: str) -> str:
    """Return the last part of a package, image or path, without version, tag and scope."""
    bare = re.sub(r"(?<=.)[@:][\w.^~*+-]*$", "", word.rstrip("/"))
    last = bare.replace("\\", "/").rpartition("/")[2]
    if last in {"mcp", "server", "index.js", "main.py", "server.py", "index.ts"} and "/" in bare:
        last = bare.replace("\\", "/").split("/")[-2].lstrip("@")
    return re.sub(r"\.(?:m?js|ts|py|exe)$", "", last)


def _clean(name: str) -> str:
    """Convert to a name that the settings allow."""
    short = _NOISE.sub("", name.lower())
    short = re.sub(r"[-_](?:mcp[-_])?server$|[-_]mcp$", "", short) or name.lower()
    allowed = re.sub(r"_{2,}", "_", re.sub(r"[^a-z0-9_.-]+", "-", short)).strip("-._")
    return allowed[:_MAX_NAME_CHARS] or "server"


def _unreadable(text: str) -> ArgumentError:
    return ArgumentError(
        f"{_shortened(text)} is neither a command, nor a URL, nor JSON with servers.",
        hint="For example: toolgate add time -- uvx mcp-server-time",
    )


def _is_no_program(text: str) -> ArgumentError:
    return ArgumentError(
        f"{_shortened(text)} is not a program on this machine, nor a URL, nor JSON with servers.",
        hint=f"If it is a name, add what to run: toolgate add {text} -- COMMAND ARGS, or "
        f"toolgate add {text} URL",
    )


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}...")
