"""The stores that every store contract runs against."""

from collections.abc import AsyncGenerator, Callable

import pytest

from toolgate.store import Store, make_store
from toolgate.testing.contracts.store.samples import SAMPLE_PROJECT


class StoreFixtures:
    """An empty store under test, and a second one on the same database."""

    @pytest.fixture
    def store_url(self) -> str:
        """URL of an empty database, a new one for each test; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    def make(self, store_url: str) -> Callable[[], Store]:
        """Builds another store on the same database."""
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
        """A second store on the same database, as in another process."""
        other = make()
        await other.open()
        yield other
        await other.close()
