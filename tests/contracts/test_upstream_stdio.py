"""The wire `stdio` keeps the contract, whatever its child does."""

import sys
from collections.abc import AsyncGenerator

import pytest

from toolgate.settings import base_environment
from toolgate.testing.contracts.upstream import (
    MAX_MESSAGE_BYTES,
    MakeWire,
    TextWireContract,
)
from toolgate.upstream import OrphanGuard, Wire
from toolgate.upstream.stdio import Options, StdioWire, build


@pytest.fixture
async def guard() -> AsyncGenerator[OrphanGuard]:
    guard = OrphanGuard()
    yield guard
    await guard.aclose()


def wire_to(guard: OrphanGuard, *args: str, command: str = sys.executable) -> StdioWire:
    return build(
        Options(command=command, args=args),
        max_message_bytes=MAX_MESSAGE_BYTES,
        base_environment=base_environment(),
        guard=guard,
    )


class TestStdio(TextWireContract):
    """All duties of a wire."""

    @pytest.fixture
    async def make_wire(self, guard: OrphanGuard) -> MakeWire:  # pyright: ignore[reportIncompatibleMethodOverride]
        return lambda: wire_to(guard, "-m", "toolgate.testing.echo_server")

    @pytest.fixture
    def unreachable_wire(self, guard: OrphanGuard) -> Wire:
        return wire_to(guard, command="no-such-command")
