"""Servers that tests of logins share."""

from collections.abc import AsyncGenerator

import pytest

from toolgate.testing.authorization import AuthorizationServer, ProtectedServer


@pytest.fixture
async def authorization() -> AsyncGenerator[AuthorizationServer]:
    async with AuthorizationServer().running() as server:
        yield server


@pytest.fixture
async def notes(authorization: AuthorizationServer) -> AsyncGenerator[ProtectedServer]:
    async with ProtectedServer(authorization).running() as server:
        yield server
