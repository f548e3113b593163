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

__all__ = ["AuthenticatorContract"]

FOREIGN = ("", " ", "x", "a.b.c", "Bearer x", "é" * 50, "\x00", "." * 100, "A" * 100_000, "a b")
"""What is nobody's credential."""


class AuthenticatorContract:
    """Subclass it with three fixtures: `authenticator`, a `valid` credential, and `bad` ones."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def bad(self) -> tuple[str, ...]:
        """Credentials that are of its kind and worth nothing; there may be none."""
        return ()

    async def test_it_knows_what_is_valid(self, authenticator: Authenticator, valid: str) -> None:
        """The same each time."""
        first = await authenticator.identify(valid)

        assert isinstance(authenticator, Authenticator)
        assert first is not None
        assert first.caller_id
        assert await authenticator.identify(valid) == first

    async def test_what_is_not_its_own_is_left_to_others(
        self, authenticator: Authenticator
    ) -> None:
        """None, and no error."""
        for credential in FOREIGN:
            assert await authenticator.identify(credential) is None

    async def test_what_is_its_own_and_bad_is_refused(
        self, authenticator: Authenticator, bad: tuple[str, ...]
    ) -> None:
        """With a reason, and never with the credential in it."""
        for credential in bad:
            with pytest.raises(CredentialError) as caught:
                await authenticator.identify(credential)
            assert caught.value.was_presented
            assert len(str(caught.value)) > 20
            assert credential not in str(caught.value)
            assert credential[-20:] not in str(caught.value)

    async def test_it_can_be_closed_twice(self, authenticator: Authenticator) -> None:
        """As everything here."""
        await authenticator.aclose()
        await authenticator.aclose()
