"""Decide which servers of other clients to import, and under which names. Writes nothing."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, TypeAlias

from toolgate.base.names import fold, server_prefix
from toolgate.errors import SettingError
from toolgate.settings import readable_name, server_name, server_spec
from toolgate.settings.clients.supported import ClientFile, FoundServer
from toolgate.types import ServerSpec, json_object

State: TypeAlias = Literal["new", "same", "self", "elsewhere", "client_only", "broken"]
"""`new`: is imported. `same`: exists already. `self`: is Toolgate. `elsewhere`: belongs to a
project that is not open. `client_only`: only its client can start it. `broken`: is invalid."""

_IDENTITY_KEYS = (
    "command",
    "args",
    "env",
    "env_file",
    "cwd",
    "url",
    "headers",
    "type",
    "transport",
)

_EDITOR_VARIABLE = re.compile(
    r"(?<!\$)\$\{(?:workspaceFolder\w*|CLAUDE_PROJECT_DIR|(?:command|config):[^}]*)[^}]*\}"
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Decision about one server in one file."""

    file: ClientFile
    """File with the server."""

    server: FoundServer
    """The server."""

    state: State
    """The decision."""

    name: str = ""
    """Name in Toolgate; empty if it is not imported."""

    remarks: tuple[str, ...] = ()
    """Remarks for the user."""

    needs: str = ""
    """Environment variable that the server needs and that is not set; empty if none."""

    identities: frozenset[str] = frozenset()
    """Two servers that share one of these are equal. WARNING: may contain secrets."""

    stays: str = ""
    """Why the entry in the client's file must stay; empty if it can be replaced."""

    is_twin: bool = False
    """Whether it equals a server found earlier, rather than one in the configuration."""

    is_disabled: bool = False
    """Whether its client does not connect to it."""

    off: str = ""
    """Why the imported copy must be disabled; empty if it can be used."""


def choose_servers(
    files: Sequence[ClientFile],
    known: Sequence[ServerSpec],
    written: Mapping[str, Any],
    *,
    cwd: Path,
    every_project: bool,
    home: Path,
) -> list[Choice]:
    """Decide about each server, in the order of the files.

    Args:
        files: Files of other clients.
        known: Servers of the configuration and of the store, which keep their names; those with
            credentials twice, without and with them.
        written: Tables `[server.*]` of the file, to detect equal servers.
        cwd: Current folder; the project that contains it is open.
        every_project: Also import servers of projects that are not open.
        home: Shown as `~` in paths.
    """
    names = {
        server_name(name): frozenset({_written_identity(config)})
        for name, config in written.items()
    }
    for spec in known:
        identities = names.get(spec.name, frozenset[str]())
        names[spec.name] = identities | _filled_identity(spec)
    imported = {(spec.source, spec.title or spec.name) for spec in known}
    permissions = {spec.name: dict(spec.tool_permissions) for spec in known}
    there = frozenset(names)
    choices: list[Choice] = []
    idle: dict[str, int] = {}  # places in the list, by name, of servers that are disabled
    for file in files:
        for server in file.servers:
            if (str(file.path), server.name) in imported:
                choices.append(
                    Choice(
                        file=file,
                        server=server,
                        state="same",
                        remarks=("already imported",),
                        stays="Toolgate imports it from this file",
                    )
                )
                continue
            choice = _choice(file, server, names, cwd=cwd, every_project=every_project, home=home)
            at = idle.pop(choice.name, None) if not choice.is_disabled else None
            if at is not None:  # what one client has disabled does not replace it in the others
                del names[choice.name]
                choice = _choice(
                    file, server, names, cwd=cwd, every_project=every_project, home=home
                )
                remarks = (f"equals {choice.name} below",)
                choices[at] = replace(
                    choices[at], state="same", name=choice.name, is_twin=True, remarks=remarks
                )
            if choice.state == "same" and choice.name not in there:
                remarks = (f"{choice.remarks[0]} above",)
                choice = replace(choice, is_twin=True, remarks=remarks)
            listed = json_object(server.config.get("tool_permissions"))
            if choice.state == "same" and listed != permissions.get(choice.name, {}):
                # Merging would give one of the clients more or fewer tools than it had.
                reason = f"it allows other tools than {choice.name}"
                remarks = (*choice.remarks, reason)
                choice = replace(choice, remarks=remarks, stays=choice.stays or reason)
            if choice.state == "new":
                names[choice.name] = choice.identities
                permissions[choice.name] = listed
                if choice.is_disabled:
                    idle[choice.name] = len(choices)
            choices.append(choice)
    return choices


def _choice(
    file: ClientFile,
    server: FoundServer,
    names: Mapping[str, frozenset[str]],
    *,
    cwd: Path,
    every_project: bool,
    home: Path,
) -> Choice:
    if server.is_toolgate:
        return Choice(file=file, server=server, state="self", remarks=("Toolgate itself",))
    if server.project and not every_project and not cwd.is_relative_to(server.project):
        remark = f"belongs to {with_tilde(Path(server.project), home)}"
        return Choice(file=file, server=server, state="elsewhere", remarks=(remark,))
    if server.client_only:
        return Choice(file=file, server=server, state="client_only", remarks=(server.client_only,))
    try:
        spec = server_spec(server.name, server.config, source=str(file.path))
    except SettingError as error:
        reason = error.failed.partition(": ")[2] or error.failed
        return Choice(file=file, server=server, state="broken", remarks=(reason.rstrip("."),))
    identities = frozenset({_written_identity(server.config)}) | _filled_identity(spec)
    off = _editor_only_variable(server.config)
    needs = spec.problem.partition(" needs the variable ")[2].partition(",")[0]
    if needs:
        stays = f"needs {needs}, which is not set"
    else:
        stays = off or ("its env_file cannot be read" if spec.problem else "")
    is_disabled = not spec.enabled and not spec.problem
    equal = next((name for name, existing in names.items() if existing & identities), None)
    if equal is not None:
        return Choice(
            file=file,
            server=server,
            state="same",
            name=equal,
            remarks=(f"equals {equal}",),
            stays=stays,
            is_disabled=is_disabled,
        )
    name = _free_name(server.name, file.client.name, names)
    remarks = list(server.notices)
    if name != server.name:
        remarks.append(f"called {name} here")
    if stays:
        remarks.append(stays)
    if is_disabled:
        remarks.append("disabled")
    if spec.tool_permissions:
        remarks.append(_tools_remark(spec.tool_permissions))
    return Choice(
        file=file,
        server=server,
        state="new",
        name=name,
        remarks=tuple(remarks),
        needs="" if off else needs,
        identities=identities,
        stays=stays,
        is_disabled=is_disabled,
        off=off,
    )


def _tools_remark(permissions: Mapping[str, bool]) -> str:
    """Say which tools of a server stay hidden, as in its client."""
    if permissions.get("*") is False:
        allowed = [name for name, may in permissions.items() if may]
        return f"only these tools: {', '.join(allowed)}" if allowed else "no tools"
    denied = [name for name, may in permissions.items() if not may]
    return f"without these tools: {', '.join(denied)}"


def _editor_only_variable(config: Mapping[str, Any]) -> str:
    """Return a reason if only the client can resolve a variable; empty if there is none."""
    text = json.dumps([config.get(name) for name in _IDENTITY_KEYS], default=str)
    match = _EDITOR_VARIABLE.search(text)
    return f"only its client can resolve {match[0]}" if match else ""


def _free_name(original: str, client: str, names: Mapping[str, object]) -> str:
    taken = {fold(server_prefix(name)) for name in names}
    numbered = (f"-{client}-{number}" for number in count(2))
    suffixes = chain(("", f"-{client}"), numbered)
    base = readable_name(original)
    candidates = (server_name(f"{base}{suffix}") for suffix in suffixes)
    return next(name for name in candidates if fold(server_prefix(name)) not in taken)


def _filled_identity(spec: ServerSpec) -> frozenset[str]:
    """Return the identity of a server with its variables resolved; empty if one is missing."""
    if spec.problem or not spec.options:
        return frozenset()
    options = {name: value for name, value in spec.options.items() if value not in ({}, [])}
    if headers := json_object(options.get("headers")):
        options["headers"] = {name.lower(): value for name, value in headers.items()}
    return frozenset({json.dumps([spec.kind, options], sort_keys=True, default=str)})


def _written_identity(config: Mapping[str, Any]) -> str:
    fields = {
        name: config[name] for name in _IDENTITY_KEYS if config.get(name) not in (None, "", [], {})
    }
    if fields.get("type") == "stdio":
        del fields["type"]
    return json.dumps(fields, sort_keys=True, default=str)


def with_tilde(path: Path, home: Path) -> str:
    """Return a path with `~` for the home folder."""
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)
