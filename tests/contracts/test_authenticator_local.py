"""The key of the run file keeps the duties of the seam."""

import pytest

from toolgate.security.authn.local import LocalAuthenticator, Options, build
from toolgate.testing.contracts.authn import AuthenticatorContract


class TestLocal(AuthenticatorContract):
    @pytest.fixture
    def authenticator(self) -> LocalAuthenticator:
        return build(Options(), local_key=lambda: "k" * 43)

    @pytest.fixture
    def valid(self) -> str:
        return "k" * 43


async def test_without_a_key_nobody_is_local() -> None:
    """Before a gateway has a run file, an empty key would match an empty header."""
    assert await build(Options(), local_key=lambda: "").identify("") is None
