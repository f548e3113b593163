"""`toolgate keys`: the key that credentials of servers are encrypted with."""

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
    help="Show and exchange the key that credentials of servers are encrypted with.",
    no_args_is_help=True,
    add_completion=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]


@app.command()
def show(as_json: AsJson = False) -> int:
    """Show where the key is and how it is called; never the key."""
    return anyio.run(_show, as_json)


@app.command()
def rotate(as_json: AsJson = False) -> int:
    """Exchange the key, and encrypt every credential anew; a gateway may run meanwhile.

    With the variable TOOLGATE_CREDENTIALS_KEY: set it to the new key, and
    TOOLGATE_CREDENTIALS_KEY_OLD to the one before, for the gateway too. After this command the old
    one is not needed any more.
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
    print_text(f"The key is in {source.name}.")
    print_text(f"It is called {keys[0]}." if keys else "There is none yet; the first use makes it.")
    print_text(f"{plural(count, 'credential')} kept.")
    if missing := [key_id for key_id in used if key_id not in keys]:
        note(f"What is kept needs the key {', '.join(missing)}, which is not there.")
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
            f"{plural(done.credentials, 'credential')} encrypted anew."
            f" The key is called {done.key_id} now, in {done.source}."
        )
    return SUCCESS
