"""Tests that share servers run in one process: else each process starts its own."""

import pytest

pytestmark = pytest.mark.xdist_group("groups")


@pytest.mark.parametrize("number", range(2))
def test_a_test_of_a_group_is_known_as_one(request: pytest.FixtureRequest, number: int) -> None:
    """pytest-xdist goes by the name; with pytest 9.2 it had none, and nothing said so."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("one process runs all tests, or they are not grouped")
    assert request.node.nodeid.endswith(f"[{number}]@groups")
