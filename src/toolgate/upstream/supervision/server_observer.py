"""Who is notified when a server connects, changes or ends."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

__all__ = ["ServerObserver", "SubjectObserver"]

ServerT = TypeVar("ServerT")
ServerT_contra = TypeVar("ServerT_contra", contravariant=True)


class ServerObserver(Protocol[ServerT_contra]):
    """Is notified about a server."""

    def server_connected(self, server: ServerT_contra) -> None:
        """A connection is up: what is listed may be different."""
        ...

    async def wait_listed(self, server: ServerT_contra) -> None:
        """Wait until the listing that follows a connection has been adopted, or has failed."""
        ...

    def server_changed(self, server: ServerT_contra) -> None:
        """A list was announced as different."""
        ...

    def server_state(self, server: ServerT_contra) -> None:
        """`state` is another one."""
        ...

    def resource_updated(self, server: ServerT_contra, uri: str) -> None:
        """A resource has new content."""
        ...


class SubjectObserver(Generic[ServerT]):
    """Passes on what the connection of one subject reports, as if the whole server did."""

    def __init__(
        self, server: ServerT, observer: ServerObserver[ServerT], *, retry: Callable[[], None]
    ) -> None:
        self._server = server
        self._observer = observer
        self._retry = retry

    def server_connected(self, server: ServerT) -> None:
        """Connect the server itself: this may be the first login with which it lists its tools."""
        del server
        self._retry()

    async def wait_listed(self, server: ServerT) -> None:
        """Nothing: the server itself is listed."""

    def server_changed(self, server: ServerT) -> None:
        """A list is different."""
        del server
        self._observer.server_changed(self._server)

    def server_state(self, server: ServerT) -> None:
        """Nothing: the state of the server is its own."""

    def resource_updated(self, server: ServerT, uri: str) -> None:
        """Nothing: nobody subscribes by this connection."""
