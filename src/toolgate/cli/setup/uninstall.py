"""`toolgate uninstall`: show or remove everything that Toolgate installed on this machine."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from toolgate import settings
from toolgate.base.installation import current_installation
from toolgate.base.processes import run_file
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.serving.service import definition_for, disable_service
from toolgate.cli.setup.importing._undo import read_changed_files, undo_changes
from toolgate.cli.terminal._command_app import CommandApp
from toolgate.cli.terminal._exit import FAILED, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_text
from toolgate.errors import ToolgateError
from toolgate.settings import Settings

app = CommandApp()

Kind: TypeAlias = Literal["client", "service", "store", "data", "configuration", "log", "database"]
"""Kinds of items."""


@dataclass(frozen=True, kw_only=True)
class InstalledItem:
    """Something that Toolgate installed on this machine."""

    kind: Kind
    """Its kind."""

    path: str
    """Its location."""

    size_bytes: int = 0
    """Size; for a folder, including all its files."""

    removable: bool = True
    """Whether `--yes` removes it."""


@app.command(help="Show or remove everything that Toolgate installed on this machine.")
def uninstall(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be removed (default).")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> int:
    """Show or remove everything that Toolgate installed on this machine."""
    removes = yes and not dry_run
    items = list(_items())
    if removes and _running():
        return FAILED
    messages = undo_changes() if removes else []
    failed = [item.path for item in items if removes and item.removable and not _remove(item)]
    if as_json:
        listed = [
            {
                "kind": item.kind,
                "path": item.path,
                "size_bytes": item.size_bytes,
                "removed": removes and item.removable and item.path not in failed,
            }
            for item in items
        ]
        print_json({"dry_run": not removes, "items": listed})
    else:
        for item in items:
            rest = "" if item.removable else "  (not removed: delete it yourself)"
            size = "would be restored" if item.kind == "client" else _size(item.size_bytes)
            print_text(f"{item.kind:<13}  {item.path}  {size}{rest}")
        if not items:
            note("There is nothing to remove.")
        elif not removes:
            note("Nothing was removed. To remove it: toolgate uninstall --yes")
    for sentence in messages:
        note(sentence)
    for path in failed:
        note(f"Could not remove {path}.")
    command = current_installation().uninstall_command()
    if removes and not failed and command:
        note(f"Now uninstall the program: {command}")
    return FAILED if failed else SUCCESS


def _items() -> Iterable[InstalledItem]:
    """Find all items that exist."""
    for path in dict.fromkeys(touched.path for touched in read_changed_files()):
        yield InstalledItem(kind="client", path=str(path))
    loaded: Settings | None = None
    try:
        loaded = load_settings()
    except ToolgateError as error:
        note(f"The configuration cannot be read, so only default locations are shown: {error}")
    data, config = settings.data_dir(), settings.config_dir()
    if loaded is not None:
        service = definition_for(loaded)
        if service.path.exists():
            yield InstalledItem(
                kind="service", path=str(service.path), size_bytes=service.path.stat().st_size
            )
        yield from _store(store_url(loaded), data)
        if loaded.log.file:
            log = Path(settings.expand_home(loaded.log.file))
            for path in sorted({*log.parent.glob(f"{log.name}.*"), log}):
                if path.is_file() and not path.is_relative_to(data):
                    yield InstalledItem(kind="log", path=str(path), size_bytes=path.stat().st_size)
        if loaded.config_file and not loaded.config_file.is_relative_to(config):
            path = loaded.config_file
            size_bytes = path.stat().st_size
            yield InstalledItem(
                kind="configuration", path=str(path), size_bytes=size_bytes, removable=False
            )
    if data.is_dir():
        yield InstalledItem(kind="data", path=str(data), size_bytes=_folder_bytes(data))
    if config.is_dir():
        yield InstalledItem(
            kind="configuration", path=str(config), size_bytes=_folder_bytes(config)
        )


def _store(url: str, data: Path) -> Iterable[InstalledItem]:
    prefix = "sqlite:///"
    if not url.startswith(prefix):
        yield InstalledItem(kind="database", path=run_file.without_password(url), removable=False)
        return
    main = Path(settings.expand_home(url.removeprefix(prefix)))
    for path in sorted(main.parent.glob(f"{main.name}*")):
        if path.is_file() and not path.is_relative_to(data):
            yield InstalledItem(kind="store", path=str(path), size_bytes=path.stat().st_size)


def _running() -> bool:
    """Whether a gateway is running, which would create everything again; prints a note."""
    runs = [run for run in run_file.read_all(settings.run_dir()) if run.is_alive()]
    for run in runs:
        note(f"A gateway runs at {run.address}. Stop it first: toolgate stop, or kill {run.pid}")
    return bool(runs)


def _remove(item: InstalledItem) -> bool:
    if item.kind == "client":
        return True  # already restored
    path = Path(item.path)
    if item.kind == "service":
        disable_service(load_settings())
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _folder_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MB" if size_bytes >= 2**20 else f"{size_bytes / 1024:.1f} kB"
