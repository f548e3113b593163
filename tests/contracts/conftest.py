"""The HTTP session that contract tests of transports share."""

from collections.abc import AsyncGenerator

import aiohttp
import pytest

from toolgate.security.outbound import open_session


@pytest.fixture
async def http() -> AsyncGenerator[aiohttp.ClientSession]:
    async with open_session() as session:
        yield session
