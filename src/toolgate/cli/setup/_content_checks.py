"""Checks of `toolgate doctor` about packs, documents, databases and the embedder."""

from collections.abc import AsyncIterator
from importlib import import_module

from toolgate.cli.client._gateway_client import GatewayClient
from toolgate.cli.client._list_packs import pack_rows
from toolgate.cli.client._open_gateway import open_gateway
from toolgate.cli.setup._check import Check, failed_check
from toolgate.cli.terminal._output import plural
from toolgate.errors import ToolgateError
from toolgate.settings import Settings


async def check_packs(loaded: Settings, remote: GatewayClient | None) -> AsyncIterator[Check]:
    """Report packs with invalid files or code."""
    packs = await remote.rows("packs") if remote is not None else await pack_rows(loaded)
    for pack in packs:
        note = " The previous version is in use." if pack["is_kept"] else ""
        for problem in pack["problems"]:
            yield Check(
                name=f"pack {pack['name']}",
                state="problem",
                found=f"{problem}{note}",
                hint=f"See: toolgate pack lint {pack['folder']}",
            )
        for reason in pack.get("skipped", ()):
            yield Check(name=f"pack {pack['name']}", state="ok", found=f"Skipped: {reason}")
    used = [str(pack["name"]) for pack in packs if pack["on"]]
    if used and not any(pack["problems"] for pack in packs):
        names = ", ".join(used)
        yield Check(
            name="packs", state="ok", found=f"{plural(len(used), 'pack')} enabled: {names}."
        )


async def check_documents(loaded: Settings) -> AsyncIterator[Check]:
    """Check whether each document collection can be searched."""
    try:
        async with open_gateway(loaded, connect=()) as gateway:
            collections = await gateway.rows("collections")
    except ToolgateError as error:
        yield failed_check("documents", error)
        return
    for row in collections:
        if row["problem"]:
            yield Check(
                name=f"documents {row['name']}",
                state="problem",
                found=row["problem"],
                hint="See: toolgate docs collections",
            )
    documents = plural(sum(row["documents"] for row in collections), "document")
    if collections and not any(row["problem"] for row in collections):
        text = f"{plural(len(collections), 'collection')} can be searched, {documents}."
        names = [row["name"] for row in collections]
        yield Check(name="documents", state="ok", found=text, details={"collections": names})


async def check_connections(loaded: Settings) -> AsyncIterator[Check]:
    """Check whether each database is readable."""
    library = import_module("toolgate.databases.connections")
    connections = library.Connections(loaded.connections)
    try:
        for name, connection in connections.items():
            try:
                schema = await connection.schema()
                rights: list[str] = await connection.reading(library.write_privileges)
            except ToolgateError as error:
                yield failed_check(f"connection {name}", error)
                continue
            count = plural(len(schema.tables), "table")
            unread = f", {len(schema.unread)} unreadable" if schema.unread else ""
            # Files are opened read-only; on a database server the user's rights should be revoked.
            is_server = connection.dialect not in {"sqlite", "duckdb"}
            remark = f" Its user has write access: {'; '.join(rights)}." if rights else ""
            yield Check(
                name=f"connection {name}",
                state="warning" if rights and is_server else "ok",
                found=f"Readable ({connection.dialect}): {count}{unread}.{remark}",
                hint="Revoke these privileges; see docs/sql.md." if rights and is_server else "",
                details={
                    "dialect": connection.dialect,
                    "tables": len(schema.tables),
                    "write_privileges": rights,
                },
            )
    finally:
        await connections.aclose()


async def check_embedder(loaded: Settings) -> Check:
    """Check whether an external embedder works."""
    try:
        result = await import_module("toolgate.cli.tools.embedder").test_embedder(loaded)
    except ToolgateError as error:
        return failed_check("embedder", error)
    text = f"{result['embedder']} works: {result['dim']} dimensions."
    return Check(name="embedder", state="ok", found=text, details=result)
