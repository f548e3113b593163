"""`toolgate keys`: show and rotate the key that encrypts stored credentials."""

from toolgate.cli.client._load_settings import load_settings, store_url
from toolgate.cli.terminal._command_app import AsJson, CommandApp
from toolgate.cli.terminal._output import note, plural, print_json, print_result, print_text
from toolgate.security.credentials import Keychain, source_of
from toolgate.store import make_store

app = CommandApp()


@app.command()
async def show(as_json: AsJson = False) -> None:
    """Show the key's ID and where it is stored; the key itself is never shown."""
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
        return
    print_text(f"Source of the key: {source.name}")
    print_text(f"Key id: {keys[0]}" if keys else "There is no key yet; the first use creates it.")
    print_text(f"Stored: {plural(count, 'credential')}")
    if missing := [key_id for key_id in used if key_id not in keys]:
        note(f"Stored credentials need the key {', '.join(missing)}, which is missing.")


@app.command()
async def rotate(as_json: AsJson = False) -> None:
    """Replace the key and re-encrypt all credentials; the gateway can keep running.

    If the key is in the variable TOOLGATE_CREDENTIALS_KEY, set it to the new key and
    TOOLGATE_CREDENTIALS_KEY_OLD to the previous one, both here and for the gateway. After this
    command the old key is no longer needed.
    """
    loaded = load_settings()
    store = make_store(store_url(loaded))
    await store.open()
    try:
        done = await Keychain(store.credentials, source_of(loaded)).rotate()
    finally:
        await store.close()
    print_result(
        {"source": done.source, "key": done.key_id, "credentials": done.credentials},
        f"Re-encrypted {plural(done.credentials, 'credential')}."
        f" The key is now {done.key_id}, in {done.source}.",
        as_json=as_json,
    )
