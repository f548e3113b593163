"""Read what people paste to add a server: a command line, a JSON snippet or a URL."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import cast
from urllib.parse import urlsplit

from toolgate.errors import ArgumentError
from toolgate.types import Json, json_object

__all__ = ["read_servers"]

_MAX_NAME_CHARS = 32
"""Most characters of a server's name, as the settings allow them."""

_MAX_SHOWN_CHARS = 80
"""Characters of a text that an error message repeats (chosen)."""

_STARTERS = frozenset({"npx", "uvx", "pipx", "bunx", "docker", "podman", "uv", "bun", "deno"})
"""Programs whose name says nothing of the server they start."""

_INTERPRETERS = frozenset(
    {"node", "python", "python3", "env", "sh", "bash", "cmd", "powershell", "pwsh"}
)

_VERBS = frozenset({"run", "exec", "dlx", "tool", "x", "/c", *_STARTERS})
"""What stands between a starter and the server: `uv run`, `cmd /c npx`."""

_OPTIONS_WITH_VALUE = frozenset(
    {"-e", "--env", "-v", "--volume", "--name", "-p", "--publish", "--network", "--from", "--with"}
    | {"--mount", "--env-file", "-w", "--workdir", "--python", "--spec", "--directory", "--package"}
)
"""Options of the starters that are followed by a value."""

_NOISE = re.compile(r"^(?:mcp[-_])?(?:server[-_])?(?=\w)")
"""What the names of packages begin with: `mcp-server-`."""


def read_servers(words: Sequence[str], name: str = "") -> dict[str, Json]:
    """The servers that these words describe, each as a table of the configuration, by name.

    Args:
        words: A command with its arguments, as separate words or in one text; a URL; or JSON: an
            `mcpServers` document, a part of it, or a single server.
        name: Name of the server; empty derives one.

    Raises:
        ArgumentError: They describe no server, or `name` is given for several.
    """
    text = " ".join(words).strip()
    if text.startswith(("{", '"')):
        servers = _from_json(text)
    elif re.match(r"https?://", text, re.IGNORECASE) and len(text.split()) == 1:
        servers = {_name_of_url(text): {"url": text}}
    else:
        command = _without_prompt(_split(text) if len(words) == 1 else list(words))
        if not command:
            raise _unreadable(text)
        servers = {_name_of_command(command): {"command": command[0], "args": command[1:]}}
    if not name:
        return servers
    if len(servers) != 1:
        raise ArgumentError(
            f"--name {name!r} fits one server, but the snippet has {len(servers)}.",
            allowed=f"Servers of the snippet: {', '.join(servers)}.",
            hint="Leave --name out.",
        )
    return {name: next(iter(servers.values()))}


def _from_json(text: str) -> dict[str, Json]:
    """The servers of a snippet in any of the forms that documentation pages show."""
    try:
        document: object = json.loads(text)
    except ValueError:
        try:  # "name": {...}, without the braces around it
            document = json.loads(f"{{{text.rstrip().rstrip(',')}}}")
        except ValueError as error:
            raise ArgumentError(
                f"The snippet is not valid JSON: {error}.",
                hint="Put it in single quotes, so that the shell leaves the double ones alone.",
            ) from error
    if not isinstance(document, dict):
        raise _unreadable(text)
    body = cast("Json", document)
    for key in ("mcpServers", "servers", "context_servers", "mcp_servers"):
        if isinstance(body.get(key), dict):
            body = json_object(body[key])
            break
    if isinstance(body.get("mcp"), dict) and "servers" in json_object(body["mcp"]):
        body = json_object(json_object(body["mcp"])["servers"])
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


def _is_server(value: object) -> bool:
    return isinstance(value, Mapping) and any(
        isinstance(cast("Json", value).get(key), str) for key in ("command", "url", "serverUrl")
    )


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ArgumentError(
            f"{_shortened(text)} cannot be read as a command line: {error}.",
            hint="Close the quotes.",
        ) from error


def _without_prompt(command: list[str]) -> list[str]:
    """Without the `$` that documentation pages show before a command."""
    return command[1:] if command[:1] == ["$"] else command


def _name_of_url(url: str) -> str:
    """`https://mcp.linear.app/sse` is `linear`."""
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
    """`npx -y @modelcontextprotocol/server-github` is `github`."""
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
        elif word not in _VERBS:
            return _clean(_package_name(word))
    return _clean(program)


def _package_name(word: str) -> str:
    """The last part of a package, image or path, without version, tag and scope."""
    bare = re.sub(r"(?<=.)[@:][\w.^~*+-]*$", "", word.rstrip("/"))
    last = bare.replace("\\", "/").rpartition("/")[2]
    if last in {"mcp", "server", "index.js", "main.py", "server.py", "index.ts"} and "/" in bare:
        last = bare.replace("\\", "/").split("/")[-2].lstrip("@")
    return re.sub(r"\.(?:m?js|ts|py|exe)$", "", last)


def _clean(name: str) -> str:
    """A name that the settings allow."""
    short = _NOISE.sub("", name.lower())
    short = re.sub(r"[-_](?:mcp[-_])?server$|[-_]mcp$", "", short) or name.lower()
    allowed = re.sub(r"_{2,}", "_", re.sub(r"[^a-z0-9_.-]+", "-", short)).strip("-._")
    return allowed[:_MAX_NAME_CHARS] or "server"


def _unreadable(text: str) -> ArgumentError:
    return ArgumentError(
        f"{_shortened(text)} is neither a command, nor a URL, nor JSON with servers.",
        hint="For example: toolgate add npx -y @modelcontextprotocol/server-filesystem /home/me",
    )


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}...")
