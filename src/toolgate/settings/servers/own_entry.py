"""Recognises server entries that start or connect to Toolgate itself."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import cast
from urllib.parse import urlsplit

_RUNNERS = frozenset({
    "uvx", "uv", "pipx", "npx", "bunx", "pnpm", "pnpx", "yarn", "bun", "python", "py", "env", "cmd",
    "sh", "bash", "zsh", "docker", "podman", "wsl", "mise", "poetry", "hatch",
})  # fmt: skip

_PACKAGE = re.compile(r"(?:.*/)?toolgate(?:-mcp)?(?:\[[^\]]*\])?(?:\s*[=@<>~!:].*)?")


def is_toolgate(config: Mapping[str, object], *, port: int = 7420) -> bool:
    """Whether an entry starts or connects to Toolgate itself, which must not be its own server."""
    url = next((config[key] for key in ("url", "serverUrl", "httpUrl", "uri") if key in config), "")
    if isinstance(url, str) and _is_own_url(url, port):
        return True
    command = config.get("command") or config.get("cmd")
    args = config.get("args")
    words = [command] if isinstance(command, str) else []
    if isinstance(command, list):
        words = [str(part) for part in cast("list[object]", command)]
    if isinstance(args, list):
        words += [str(part) for part in cast("list[object]", args)]
    return _starts_toolgate(words, port)


def _is_own_url(url: str, port: int) -> bool:
    try:
        parts = urlsplit(url)
        here = parts.hostname in {"127.0.0.1", "localhost", "::1", "0.0.0.0"}  # noqa: S104
        return here and parts.port == port and parts.path.rstrip("/") in {"", "/mcp"}
    except ValueError:
        return False


def _starts_toolgate(words: Sequence[str], port: int) -> bool:
    if not words:
        return False
    program = _program_name(words[0])
    if program in {"toolgate", "toolgate-mcp"}:
        return True
    if re.sub(r"[\d.]+$", "", program) not in _RUNNERS and program != "mcp-remote":
        return False
    rest = list(words[1:])
    if program in {"sh", "bash", "zsh"} and len(rest) >= 2 and rest[0].endswith("c"):
        try:
            return _starts_toolgate(shlex.split(rest[1].removeprefix("exec ")), port)
        except ValueError:
            return False
    return _runs_toolgate(rest, port)


_TAKES_VALUE = frozenset({
    "--with", "--python", "-p", "--directory", "--project", "--index-url", "--extra-index-url",
    "--index", "--default-index", "--env-file", "--with-requirements", "-e", "--env", "-v",
    "--volume", "--name", "--network", "-w", "--workdir", "-u", "--user", "--with-editable",
    "--cache-dir", "--find-links", "-f", "--pip-args", "--package-dir", "--refresh-package",
})  # fmt: skip

_PASSED_OVER = frozenset({
    "tool", "run", "x", "exec", "dlx", "/c", "/C", "/d", "/s", "--", "cmd", "npx", "uvx", "uv",
    "pipx", "env",
})  # fmt: skip


def _runs_toolgate(words: Sequence[str], port: int) -> bool:
    """Whether the arguments of a runner make it run Toolgate."""
    at = 0
    while at < len(words):
        word = words[at]
        if word in {"--from", "--spec", "--package", "-m"} and at + 1 < len(words):
            if _PACKAGE.fullmatch(words[at + 1]):
                return True
            if word == "-m":
                return False
            at += 2
        elif word in _TAKES_VALUE:
            at += 2
        elif word.startswith(("--from=", "--spec=", "--package=")):
            if _PACKAGE.fullmatch(word.partition("=")[2]):
                return True
            at += 1
        elif word.startswith("-") or word in _PASSED_OVER or re.fullmatch(r"\w+=.*", word):
            at += 1
        elif word.startswith("mcp-remote"):
            return any(_is_own_url(later, port) for later in words[at + 1 :])
        else:
            return _PACKAGE.fullmatch(_program_name(word) if "\\" in word else word) is not None
    return False


def _program_name(command: str) -> str:
    name = PureWindowsPath(command).name if "\\" in command else PurePosixPath(command).name
    return re.sub(r"(?i)\.(?:exe|cmd|bat|ps1)$", "", name).lower()
