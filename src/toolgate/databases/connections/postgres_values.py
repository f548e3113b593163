"""PostgreSQL values that Python cannot represent, as text instead of errors."""

from collections.abc import Callable
from typing import Any, Final

from psycopg import Connection, DataError
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.datetime import DateLoader, IntervalLoader, TimestampLoader, TimestamptzLoader
from psycopg.types.json import JsonLoader


def _forgiving(loader: type[Loader]) -> type[Loader]:
    usual: Callable[[Loader, Buffer], Any] = loader.load

    class Forgiving(loader):
        def load(self, data: Buffer) -> Any:
            try:
                return usual(self, data)
            except (DataError, ValueError, OverflowError, RecursionError):
                return bytes(data).decode("utf-8", "replace")

    return Forgiving


_LOADERS: Final = {
    "date": _forgiving(DateLoader),
    "timestamp": _forgiving(TimestampLoader),
    "timestamptz": _forgiving(TimestamptzLoader),
    "interval": _forgiving(IntervalLoader),
    "json": _forgiving(JsonLoader),
    "jsonb": _forgiving(JsonLoader),
}


def forgive(connection: Connection[Any]) -> None:
    """Return `infinity`, years beyond 9999 and similar values as text from now on."""
    for name, loader in _LOADERS.items():
        connection.adapters.register_loader(name, loader)
