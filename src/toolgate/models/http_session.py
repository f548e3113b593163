"""Connections to a service over HTTP."""

import asyncio

import aiohttp


class HttpSession:
    """An aiohttp session that opens with the first request."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> aiohttp.ClientSession:
        """Return the session; after `aclose`, a new one."""
        # An aiohttp session belongs to one event loop; tests and commands may use another.
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._session, self._loop = aiohttp.ClientSession(), loop
        return self._session

    async def aclose(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
