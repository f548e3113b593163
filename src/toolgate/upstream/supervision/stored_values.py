"""What is stored for a server, as its connections use it."""

from collections.abc import Awaitable, Callable, Mapping

from toolgate.errors import LoginNeededError, ToolgateError
from toolgate.security.guards import ServerSecrets
from toolgate.types import ServerSpec


class StoredValues:
    """Fills in what is stored for a server, and knows which secrets its texts may not show."""

    def __init__(
        self, spec: ServerSpec, completed: Callable[[ServerSpec], Awaitable[ServerSpec]]
    ) -> None:
        """Create it without anything stored.

        Args:
            spec: The configuration of the server.
            completed: Adds what is stored for the server to its options.
        """
        self.secrets = ServerSecrets(spec.options, spec.secrets)
        """The secrets of this and of earlier connections."""
        self._completed = completed
        self._used: Mapping[str, object] = {}

    async def fill(self, spec: ServerSpec) -> ServerSpec:
        """Return the server with what is stored for it, for a new connection.

        Raises:
            LoginNeededError: It refers to a secret that is not stored.
        """
        filled = await self._read(spec)
        self._used = filled.options
        return filled

    async def is_current(self, spec: ServerSpec) -> bool:
        """Return whether a new connection would get the same options as the last one."""
        try:
            return (await self._read(spec)).options == self._used
        except LoginNeededError:
            return False
        except ToolgateError:  # the store cannot be read: it says nothing about the connection
            return True

    async def _read(self, spec: ServerSpec) -> ServerSpec:
        filled = await self._completed(spec)
        # Output of an earlier process may show the earlier ones.
        self.secrets = ServerSecrets(filled.options, filled.secrets.union(self.secrets.values))
        return filled
