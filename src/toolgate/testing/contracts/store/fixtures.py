"""The stores that every store contract runs against."""

from collections.abc import AsyncGenerator, Callable

import pytest

from toolgate.store import Store, make_store
from toolgate.testing.contracts.store.samples import SAMPLE_PROJECT

__all__ = ["StoreFixtures"]


class StoreFixtures:
    """An empty store under test, and a second one on the same place."""

    @pytest.fixture
    def store_url(self) -> str:
        """Address of an empty place, a new one for each test; every subclass says which."""
        raise NotImplementedError

    @pytest.fixture
    def make(self, store_url: str) -> Callable[[], Store]:
        """Builds one more store on the same place."""
        return lambda: make_store(store_url)

    @pytest.fixture
    async def store(self, make: Callable[[], Store]) -> AsyncGenerator[Store]:
        """The store under test, open, with a reference to the project of the samples."""
        store = make()
        await store.open()
        await store.projects.add_references([SAMPLE_PROJECT])
        yield store
        await store.close()

    @pytest.fixture
    async def other(
        self,
        make: Callable[[], Store],
        store: Store,  # noqa: ARG002 - opened first
    ) -> AsyncGenerator[Store]:
        """A second store on the same place, as another process would have it."""
        other = make()
        await other.open()
        yield other
        await other.close()
