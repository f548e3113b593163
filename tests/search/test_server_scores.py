"""The vectors of servers: the mean of their tools'."""

import numpy as np
import pytest

from toolgate.search.semantic.server_scores import _sums  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("tools", [1, 2, 5, 8, 9, 40, 700])
def test_sums_by_server_are_those_of_numpy_to_the_last_bit(tools: int) -> None:
    """Scores must not depend on which way a sum was made: `reduceat` is only slower."""
    chance = np.random.default_rng(tools)
    rows = chance.standard_normal((700, 16)).astype(np.float32)
    owners = np.sort(chance.integers(0, max(1, 700 // tools), len(rows)))
    starts = np.flatnonzero(np.diff(owners, prepend=-1))

    assert (_sums(rows, starts) == np.add.reduceat(rows, starts, axis=0)).all()
