"""What is connected, for packs that go by it; loaded only where a database is."""

from toolgate.cli.client._load_settings import store_url
from toolgate.cli.terminal._output import note
from toolgate.databases.connections import Connections, SchemaHistory
from toolgate.errors import StoreError
from toolgate.packs import Pack, with_live_names
from toolgate.settings import Settings
from toolgate.store import make_store

__all__ = ["with_table_names"]


async def with_table_names(settings: Settings, packs: tuple[Pack, ...]) -> tuple[Pack, ...]:
    """Packs with the names of the tables and types of all connections.

    They are those of the last look; a database that nobody ever looked at is looked at now.
    """
    store = make_store(store_url(settings))
    connections = Connections(settings.connections)
    try:
        await store.open()
        names = await SchemaHistory(connections, store).names(refresh=True)
    except StoreError as error:
        note(f"The names of tables do not count: {error}")
        return packs
    finally:
        await connections.aclose()
        await store.close()
    return tuple(with_live_names(pack, {"tables": names}) for pack in packs)
