"""Definitions of Toolgate as a service: systemd, launchd and the Windows task scheduler."""

import plistlib
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

LABEL = "io.github.toolgate"
"""Name of the launchd agent."""

_SYSTEMD_NAME = "toolgate.service"
_TASK_NAME = "Toolgate"


@dataclass(frozen=True, kw_only=True)
class ServiceDefinition:
    """A file for a service manager, and the commands for it."""

    path: Path
    """Path of the file."""

    text: str
    """Content of the file."""

    enable: tuple[tuple[str, ...], ...]
    """Commands that start the service now and at every login."""

    disable: tuple[tuple[str, ...], ...]
    """Commands that stop and unregister the service; they run before the file is removed."""

    output: str
    """A sentence that says where to read what the service printed."""

    encoding: str = "utf-8"
    """Encoding of the file."""


def systemd_unit(
    command: Sequence[str], folder: Path, search_path: str, config_home: Path
) -> ServiceDefinition:
    """A user unit: https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html.

    Args:
        command: Program and arguments, with absolute paths.
        folder: Working folder, where `toolgate.toml` is searched first.
        search_path: PATH, in which npx, uvx and other programs of servers are found.
        config_home: `XDG_CONFIG_HOME`.
    """
    program, *arguments = map(_systemd_word, command)
    # Variables are replaced in arguments alone.
    start = " ".join([program, *(word.replace("$", "$$") for word in arguments)])
    text = f"""[Unit]
Description=Toolgate, one MCP endpoint in front of all MCP servers
After=network-online.target

[Service]
ExecStart={start}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={str(folder).replace("%", "%%")}
Environment={_systemd_word(f"PATH={search_path}")}
# Secrets for ${{env:NAME}} in toolgate.toml, one NAME=VALUE per line; readable by you alone.
EnvironmentFile=-{str(config_home / "toolgate" / "environment").replace("%", "%%")}
Restart=on-failure
RestartSec=2
TimeoutStopSec=45
KillMode=mixed
LimitNOFILE=65536

[Install]
WantedBy=default.target
"""
    systemctl = ("systemctl", "--user")
    return ServiceDefinition(
        path=config_home / "systemd" / "user" / _SYSTEMD_NAME,
        text=text,
        enable=((*systemctl, "daemon-reload"), (*systemctl, "enable", "--now", _SYSTEMD_NAME)),
        disable=((*systemctl, "disable", "--now", _SYSTEMD_NAME),),
        output="See: journalctl --user --unit toolgate",
    )


def launchd_agent(
    command: Sequence[str], folder: Path, search_path: str, home: Path, log: Path, uid: int
) -> ServiceDefinition:
    """A user agent: see launchd.plist(5) of macOS.

    Args:
        command: Program and arguments, with absolute paths.
        folder: Working folder.
        search_path: PATH.
        home: Home folder.
        log: File for its output.
        uid: User id, for the domain `gui/UID`.
    """
    path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    document = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "WorkingDirectory": str(folder),
        "EnvironmentVariables": {"PATH": search_path},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": 45,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
        "SoftResourceLimits": {"NumberOfFiles": 10_240},
    }
    domain = f"gui/{uid}"
    return ServiceDefinition(
        path=path,
        text=plistlib.dumps(document, sort_keys=False).decode(),
        enable=(("launchctl", "bootstrap", domain, str(path)),),
        disable=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
        output=f"See {log}.",
    )


def windows_task(
    command: Sequence[str], folder: Path, data_folder: Path, user: str
) -> ServiceDefinition:
    """A logon task: https://learn.microsoft.com/windows/win32/taskschd/task-scheduler-schema.

    Args:
        command: Program and arguments, with absolute paths.
        folder: Working folder.
        data_folder: Folder of the definition.
        user: Domain and name of the account; a task at the logon of any user needs the rights of
            an administrator.
    """
    path = data_folder / "toolgate-task.xml"
    program, *arguments = command
    text = f"""<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo>
    <Description>Toolgate, one MCP endpoint in front of all MCP servers</Description>
  </RegistrationInfo>
  <Triggers><LogonTrigger>
    <Enabled>true</Enabled>
    <UserId>{escape(user)}</UserId>
  </LogonTrigger></Triggers>
  <Principals><Principal id="Author">
    <UserId>{escape(user)}</UserId>
    <LogonType>InteractiveToken</LogonType>
    <RunLevel>LeastPrivilege</RunLevel>
  </Principal></Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>10</Count></RestartOnFailure>
  </Settings>
  <Actions Context="Author"><Exec>
    <Command>{escape(program)}</Command>
    <Arguments>{escape(subprocess.list2cmdline(arguments))}</Arguments>
    <WorkingDirectory>{escape(str(folder))}</WorkingDirectory>
  </Exec></Actions>
</Task>
"""
    return ServiceDefinition(
        path=path,
        text=text,
        enable=(
            ("schtasks", "/Create", "/TN", _TASK_NAME, "/XML", str(path), "/F"),
            ("schtasks", "/Run", "/TN", _TASK_NAME),
        ),
        disable=(
            ("schtasks", "/End", "/TN", _TASK_NAME),
            ("schtasks", "/Delete", "/TN", _TASK_NAME, "/F"),
        ),
        output="See what it prints: toolgate serve",
        encoding="utf-16",
    )


def _systemd_word(word: str) -> str:
    """Quote a word of `ExecStart=` or `Environment=`, where `%` is special."""
    text = word.replace("\\", "\\\\").replace("%", "%%")
    return text if text == shlex.quote(text) else '"{}"'.format(text.replace('"', '\\"'))
