"""The contract suite for authenticators.

Example:
    ```python
    class TestMine(AuthenticatorContract):
        @pytest.fixture
        def authenticator(self) -> Mine: ...

        @pytest.fixture
        def valid(self) -> str: ...

        @pytest.fixture
        def bad(self) -> tuple[str, ...]: ...
    ```
"""

import pytest

from toolgate.errors import CredentialError
from toolgate.security.authn import Authenticator

FOREIGN = ("", " ", "x", "a.b.c", "Bearer x", "é" * 50, "\x00", "." * 100, "A" * 100_000, "a b")
"""Credentials of no kind."""


class AuthenticatorContract:
    """Subclass it with the fixtures `authenticator`, `valid` and `bad`."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def bad(self) -> tuple[str, ...]:
        """Invalid credentials of its kind; may be empty."""
        return ()

    async def test_it_knows_what_is_valid(self, authenticator: Authenticator, valid: str) -> None:
        """The identity is the same each time."""
        first = await authenticator.identify(valid)

        assert isinstance(authenticator, Authenticator)
        assert first is not None
        assert first.caller_id
        assert await authenticator.identify(valid) == first

    async def test_what_is_not_its_own_is_left_to_others(
        self, authenticator: Authenticator
    ) -> None:
        """It returns None instead of an error."""
        for credential in FOREIGN:
            assert await authenticator.identify(credential) is None

    async def test_what_is_its_own_and_bad_is_refused(
        self, authenticator: Authenticator, bad: tuple[str, ...]
    ) -> None:
        """The error has a reason, and never contains the credential."""
        for credential in bad:
            with pytest.raises(CredentialError) as caught:
                await authenticator.identify(credential)
            assert caught.value.was_presented
            assert len(str(caught.value)) > 20
            assert credential not in str(caught.value)
            assert credential[-20:] not in str(caught.value)

    async def test_it_can_be_closed_twice(self, authenticator: Authenticator) -> None:
        """Closing is idempotent."""
        await authenticator.aclose()
        await authenticator.aclose()
