"""Oracle SQLcl as a server behind the gateway: `sql -mcp`, with its own connection store.

SQLcl only takes passwords from its store, so each connection is saved there first. The password
is passed through standard input; it is in no argument, prompt or log. Tested with a program that
simulates SQLcl; not with SQLcl itself.
"""

import logging
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import sqlalchemy as sa

from toolgate.base.private_folder import create_private_folder
from toolgate.packs.builtin.sql._options import read_options
from toolgate.settings import data_dir
from toolgate.types import Json

log = logging.getLogger(__name__)


class SqlclServices(Protocol):
    """The services of the pack that are needed here."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The options of the pack."""
        ...

    @property
    def connections(self) -> Mapping[str, Any]:
        """Databases by name."""
        ...


_SAVING_S: Final = 25.0
"""Seconds for SQLcl to save a connection (chosen: starting Java takes several)."""
_LINE: Final = re.compile(r"[\r\n\0]+")


def sqlcl_servers(services: SqlclServices, *, home: Path | None = None) -> dict[str, Json]:
    """Return a server `sqlcl-NAME` for each Oracle connection; problems are logged as warnings.

    Args:
        services: What the pack may use.
        home: Folder for the stores; None: one in the data folder.
    """
    options = read_options(services.settings)
    if not options.sqlcl:
        return {}
    oracle = {
        name: connection
        for name, connection in services.connections.items()
        if connection.dialect == "oracle"
    }
    command = shutil.which(options.sqlcl_command)
    if command is None:
        log.warning(
            "SQLcl is left out: there is no program %r. Install it, or set sqlcl_command under "
            "[packs.options.sql].",
            options.sqlcl_command,
        )
        return {}
    if not oracle:
        log.warning("SQLcl is left out: no connection has an address that begins with oracle.")
    servers: dict[str, Json] = {}
    for name, connection in oracle.items():
        folder = (home or data_dir() / "sqlcl") / name
        if not _saved(command, folder, name, sa.make_url(connection.table.url)):
            continue
        servers[f"sqlcl-{name}"] = {
            "command": command,
            "args": ["-home", str(folder), "-mcp"],
            # Runs commands of the client: scripts, spool files, settings.
            "tool_permissions": {"run-sqlcl": False},
        }
    return servers


def _saved(command: str, folder: Path, name: str, url: sa.URL) -> bool:
    """Save a connection in its own store. Returns whether this succeeded."""
    create_private_folder(folder)
    script = (
        f"connect -savepwd -save {_quoted(_saved_name(name))} -replace "
        f"-user {_quoted(url.username or '')} -password {_quoted(str(url.password or ''))} "
        f"-url {_quoted(_address(url))}\nexit\n"
    )
    try:
        done = subprocess.run(  # noqa: S603 -- the program that the settings name
            [command, "-S", "-home", str(folder), "/nolog"],
            input=script,
            text=True,
            capture_output=True,
            timeout=_SAVING_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("SQLcl is left out", extra={"connection": name, "reason": type(error).__name__})
        return False
    if done.returncode:
        log.warning("SQLcl is left out", extra={"connection": name, "status": done.returncode})
    return not done.returncode


def _saved_name(name: str) -> str:
    return f"TOOLGATE_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"


def _address(url: sa.URL) -> str:
    """Return the URL as an Oracle easy connect string."""
    query: Mapping[str, Any] = url.query
    service = str(query.get("service_name") or url.database or "")
    return f"//{url.host or 'localhost'}:{url.port or 1521}/{service}"


def _quoted(text: str) -> str:
    """Quote a word for a command line of SQLcl; line breaks are replaced."""
    doubled = _LINE.sub(" ", text).replace('"', '""')
    return f'"{doubled}"'
