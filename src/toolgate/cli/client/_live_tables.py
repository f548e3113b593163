"""Table names of connected databases, for packs whose keywords depend on them."""

from toolgate.cli.client._load_settings import store_url
from toolgate.cli.terminal._output import note
from toolgate.databases.connections import Connections, SchemaHistory
from toolgate.errors import StoreError
from toolgate.packs import Pack, with_live_names
from toolgate.settings import Settings
from toolgate.store import make_store


async def with_table_names(settings: Settings, packs: tuple[Pack, ...]) -> tuple[Pack, ...]:
    """Return packs with the names of the tables and types of all connections.

    The names come from the last schema snapshot; a database without one is read now.
    """
    store = make_store(store_url(settings))
    connections = Connections(settings.connections)
    try:
        await store.open()
        names = await SchemaHistory(connections, store).names(refresh=True)
    except StoreError as error:
        note(f"Table names are not used: {error}")
        return packs
    finally:
        await connections.aclose()
        await store.close()
    return tuple(with_live_names(pack, {"tables": names}) for pack in packs)
