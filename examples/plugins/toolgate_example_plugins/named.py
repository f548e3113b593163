"""The store `named`: SQLite files in Toolgate's data folder, addressed by name.

`store.url = "named://team"` keeps everything in `team.db`, so that several gateways of one user
need no paths in their settings.
"""

import re
from dataclasses import dataclass

from toolgate.errors import OptionError
from toolgate.settings import data_dir
from toolgate.store import Store
from toolgate.store.sqlite import SqliteStore

_URL = re.compile(r"named://([a-z0-9][a-z0-9-]{0,63})")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The store's URL; Toolgate passes `store.url`."""

    url: str
    """`named://NAME`."""


def build(options: Options) -> "NamedStore":
    """Return the store with this name; nothing is opened yet.

    Raises:
        OptionError: The URL has no valid name.
    """
    match = _URL.fullmatch(options.url)
    if match is None:
        raise OptionError(
            "store.url has no valid name after named://.",
            allowed="Allowed: named://NAME with a-z, 0-9 and -.",
            hint="Correct store.url.",
        )
    return NamedStore(match[1])


class NamedStore(SqliteStore):
    """A SQLite store that is found by name."""

    def __init__(self, name: str) -> None:
        super().__init__(data_dir() / f"{name}.db")
        self._name = name

    @property
    def url(self) -> str:
        """The URL as in the settings."""
        return f"named://{self._name}"


_: type[Store] = NamedStore
