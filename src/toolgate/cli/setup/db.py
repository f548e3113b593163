"""`toolgate db`: upgrade, check, back up and restore the store, also while a gateway runs."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import anyio
import typer

from toolgate.audit import ChainSigner, sign_restore
from toolgate.base.ids import new_id, utc_now
from toolgate.base.private_folder import create_private_folder
from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.client._open_gateway import find_running
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._exit import FAILED, NO_RESULT, SUCCESS
from toolgate.cli.terminal._output import note, print_json, print_table
from toolgate.errors import ArgumentError, ConfigError, StoreError, ToolgateError
from toolgate.settings import audit_files, audit_key, data_dir
from toolgate.store import Store, StoreMaintenance, make_store
from toolgate.types import AuditRecord, Json

app = CommandApp()

File = Annotated[Path, typer.Argument(metavar="FILE", help="Backup file (SQLite).")]


@app.command()
async def upgrade(as_json: AsJson = False) -> None:
    """Upgrade the schema of the store.

    SQLite stores are upgraded automatically at startup; PostgreSQL stores only with this command.

    JSON: {"store", "before": schema or null, "after": schema, "copy": path or null}
    """
    async with _open_for_upkeep() as (store, upkeep):
        done = await upkeep.upgrade()
    copy = str(done.copy) if done.copy else None
    if as_json:
        print_json({"store": store.url, "before": done.before, "after": done.after, "copy": copy})
    elif done.before == done.after:
        print(f"The store {store.url} is up to date, with schema {done.after}.")
    elif done.before is None:
        print(f"The store {store.url} was created with schema {done.after}.")
    else:
        print(f"The store {store.url} was upgraded from schema {done.before} to {done.after}.")
        if copy:
            print(f"Backup: {copy}")


@app.command()
async def check(as_json: AsJson = False) -> int:
    """Check schema, integrity and size of the store. Exit status 1 if there are problems.

    JSON: {"store", "schema": schema or null, "problems": list of texts, "sizes": {"total": bytes,
    table: rows}}; exit status 3 without a store
    """
    sizes: dict[str, int] = {}
    async with _open_for_upkeep() as (store, upkeep):
        if not await upkeep.exists():
            return _no_store(store)
        report = await upkeep.check()
        if not report.problems:
            sizes = await store.sizes()
    if as_json:
        answer: Json = {"store": store.url, "schema": report.schema}
        print_json(answer | {"problems": list(report.problems), "sizes": sizes})
    else:
        for problem in report.problems:
            print(problem)
        if not report.problems:
            print(f"The store {store.url} is intact, with schema {report.schema}.")
            total = sizes.pop("total")
            rows = [(name, f"{count:,}") for name, count in sizes.items()]
            print_table(("Table", "Rows"), [*rows, ("bytes", f"{total:,}")])
    return FAILED if report.problems else SUCCESS


@app.command()
async def backup(
    file: File,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    as_json: AsJson = False,
) -> int:
    """Write a consistent snapshot of the store to FILE.

    The backup is a SQLite file, whatever the kind of store; restore it with `toolgate db restore`.
    It contains everything in the store: keep it private.

    JSON: {"store", "file": path, "bytes"}
    """
    target = file.absolute()
    if target.is_dir():
        raise ArgumentError(f"{target} is a folder.", hint="Choose a file.")
    if target.exists() and not force:
        raise ArgumentError(
            f"The file {target} exists.", hint="Choose another one, or replace it with --force."
        )
    async with _open_for_upkeep() as (store, upkeep):
        if not await upkeep.exists():
            return _no_store(store)
        await upkeep.backup(target)
    size = (await anyio.Path(target).stat()).st_size
    if as_json:
        print_json({"store": store.url, "file": str(target), "bytes": size})
    else:
        print(f"Wrote {target}, {size:,} bytes.")
    return SUCCESS


@app.command()
async def restore(file: File, as_json: AsJson = False) -> None:
    """Replace the content of the store with FILE; the current content is backed up first.

    JSON: {"store", "file": path, "rows": {table: rows}, "before": path or null}
    """
    source = file.absolute()
    async with _open_for_upkeep() as (store, upkeep):
        before = await _backup_current(upkeep)
        try:
            rows = await upkeep.restore(source)
        except ToolgateError:
            if before is not None:  # nothing was changed
                await anyio.Path(before).unlink()
            raise
        await _sign_restore(store, source)
    if as_json:
        backup_path = str(before) if before else None
        print_json({"store": store.url, "file": str(source), "rows": rows, "before": backup_path})
    else:
        print(f"Restored {sum(rows.values()):,} rows from {source}.")
    if before:
        note(f"Backup of the previous content: {before}")
    running = await find_running(load_settings())
    if running is not None:
        note("Restart the running gateway: it still uses the previous content.")


async def _sign_restore(store: Store, file: Path) -> None:
    """Sign that the audit log continues from a backup; otherwise it would seem truncated."""
    record = AuditRecord(
        record_id=new_id(),
        at=utc_now(),
        action="db_restore",
        client="cli",
        detail={"file": str(file)},
    )
    try:
        await store.open()
        signer = ChainSigner(audit_key(), file=audit_files()[1])
        await sign_restore(store, signer, file=str(file), record=record)
    except ToolgateError as error:
        note(
            f"The restore was not signed, so the audit log cannot be verified from here on: {error}"
        )


async def _backup_current(upkeep: StoreMaintenance) -> Path | None:
    """Back up what a restore replaces; None if nothing is readable."""
    folder = data_dir() / "backups"
    create_private_folder(folder)
    file = folder / f"before-restore-{utc_now().replace(':', '').replace('.', '')}.db"
    try:
        if not await upkeep.exists():
            return None
        await upkeep.backup(file)
    except (StoreError, ConfigError) as error:
        note(f"The current content could not be backed up: {error}")
        return None
    return file


@asynccontextmanager
async def _open_for_upkeep() -> AsyncGenerator[tuple[Store, StoreMaintenance]]:
    """Yield the configured store, not opened, since opening may upgrade it."""
    store = make_store(store_url(load_settings()))
    assert isinstance(store, StoreMaintenance), "all stores support maintenance"
    try:
        yield store, store
    finally:
        await store.close()


def _no_store(store: Store) -> int:
    note(f"There is no store yet at {store.url}. Toolgate creates it at the first start.")
    return NO_RESULT
