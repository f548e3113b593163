"""The contract of vectors finds faults: a broken place fails in the test that names its fault."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.store.vectors.vector_stores import open_store
from toolgate.store.vectors import TextLink, TextMatch, VectorSpace
from toolgate.store.vectors.sqlite import SqliteVectors
from toolgate.testing.contracts.vectors import VectorContract

pytestmark = pytest.mark.anyio


class MixesModels(SqliteVectors):
    def model_id(self, driver: Any, space: VectorSpace) -> int | None:
        found = self.rows(driver, "SELECT min(model_id) FROM vector_models")
        return found[0][0]


class LosesRows(SqliteVectors):
    async def save(
        self, space: VectorSpace, hashes: Sequence[bytes], rows: NDArray[np.float16]
    ) -> int:
        await super().save(space, hashes[:-1], rows[:-1])
        return len(hashes)


class WritesEqualRows(SqliteVectors):
    async def save(
        self, space: VectorSpace, hashes: Sequence[bytes], rows: NDArray[np.float16]
    ) -> int:
        await super().save(space, hashes, rows)
        return len(hashes)


class FiltersAfterRanking(SqliteVectors):
    async def nearest(
        self,
        space: VectorSpace,
        query: NDArray[np.float32],
        *,
        limit: int,
        allowed: Sequence[bytes] | None = None,
    ) -> list[TextMatch]:
        found = await super().nearest(space, query, limit=limit)
        return [one for one in found if allowed is None or one.text_hash in set(allowed)]


class AddsLinks(SqliteVectors):
    async def link(self, project_id: str, server: str, links: Sequence[TextLink]) -> int:
        before = (await self.links(project_id)).get(server, {})
        kept = [
            TextLink(tool=tool, text_hash=text)
            for tool, text in before.items()
            if tool not in {link.tool for link in links}
        ]
        return await super().link(project_id, server, [*kept, *links])


class KeepsVectors(SqliteVectors):
    async def unlink(self, project_id: str, server: str) -> int:
        return await self.link(project_id, server, [])


class TakesAll(SqliteVectors):
    async def unlink(self, project_id: str, server: str) -> int:
        count = await super().unlink(project_id, server)
        await self._store.writing(lambda driver: self.run(driver, "DELETE FROM vectors"))
        return count


class PrunesTheYoung(SqliteVectors):
    async def prune(self, *, before: str) -> int:
        return await super().prune(before="2999-01-01T00:00:00.000Z")


CONTRACT = VectorContract


@pytest.mark.parametrize(
    ("broken", "test"),
    [
        (MixesModels, CONTRACT.test_models_and_dimensions_never_meet),
        (LosesRows, CONTRACT.test_what_was_saved_is_read_to_the_bit),
        (WritesEqualRows, CONTRACT.test_saving_skips_what_is_equal_and_replaces_what_is_not),
        (FiltersAfterRanking, CONTRACT.test_only_what_is_allowed_is_ranked),
        (AddsLinks, CONTRACT.test_links_become_what_was_said_last),
        (KeepsVectors, CONTRACT.test_a_removed_server_takes_its_vectors_along),
        (TakesAll, CONTRACT.test_a_removed_server_takes_its_vectors_along),
        (PrunesTheYoung, CONTRACT.test_a_clean_up_removes_what_no_tool_has),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_broken_place_fails_in_the_test_that_names_its_fault(
    broken: type[SqliteVectors], test: Callable[..., Any], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    async with AsyncExitStack() as stack:
        stores = iter([await stack.enter_async_context(open_store(url)) for _ in range(4)])
        wants_many = "make_vectors" in test.__code__.co_varnames
        given: Any = (lambda: broken(next(stores))) if wants_many else broken(next(stores))

        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await test(VectorContract(), given)
