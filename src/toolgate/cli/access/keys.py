"""`toolgate keys`: show and rotate the key that encrypts stored credentials."""

from typing import Annotated

import anyio
import typer

from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.terminal._exit import SUCCESS
from toolgate.cli.terminal._output import note, plural, print_json, print_text
from toolgate.security.credentials import Keychain, source_of
from toolgate.store import make_store

__all__ = ["app"]

app = typer.Typer(
    help="Show and rotate the key that encrypts stored credentials.",
    no_args_is_help=True,
    add_completion=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command()
def show(as_json: AsJson = False) -> int:
    """Show the key's ID and where it is stored; the key itself is never shown."""
    return anyio.run(_show, as_json)


@app.command()
def rotate(as_json: AsJson = False) -> int:
    """Replace the key and re-encrypt all credentials; the gateway can keep running.

    If the key is in the variable TOOLGATE_CREDENTIALS_KEY, set it to the new key and
    TOOLGATE_CREDENTIALS_KEY_OLD to the previous one, both here and for the gateway. After this
    command the old key is no longer needed.
    """
    return anyio.run(_rotate, as_json)


async def _show(as_json: bool) -> int:
    loaded = load_settings()
    source = source_of(loaded)
    keys = [key.key_id for key in source.read()]
    store = make_store(store_url(loaded))
    await store.open()
    try:
        used = sorted({key.wrapped_by for key in await store.credentials.keys()})
        count = len(await store.credentials.select())
    finally:
        await store.close()
    if as_json:
        print_json({"source": source.name, "keys": keys, "needed": used, "credentials": count})
        return SUCCESS
    print_text(f"Source of the key: {source.name}")
    print_text(f"Key id: {keys[0]}" if keys else "There is no key yet; the first use creates it.")
    print_text(f"Stored: {plural(count, 'credential')}")
    if missing := [key_id for key_id in used if key_id not in keys]:
        note(f"Stored credentials need the key {', '.join(missing)}, which is missing.")
    return SUCCESS


async def _rotate(as_json: bool) -> int:
    loaded = load_settings()
    store = make_store(store_url(loaded))
    await store.open()
    try:
        done = await Keychain(store.credentials, source_of(loaded)).rotate()
    finally:
        await store.close()
    if as_json:
        print_json({"source": done.source, "key": done.key_id, "credentials": done.credentials})
    else:
        print_text(
            f"Re-encrypted {plural(done.credentials, 'credential')}."
            f" The key is now {done.key_id}, in {done.source}."
        )
    return SUCCESS
