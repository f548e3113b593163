"""The short form of `make soak`: the same run, with as many calls as fit into its time."""

from pathlib import Path

import pytest

from benchmarks.soak import faults, soak

pytestmark = pytest.mark.real


def test_nothing_piles_up_while_servers_are_killed_and_clients_come_and_go(tmp_path: Path) -> None:
    """Source: decisions of the project; the long form makes 1,000,000 calls with 1,000 kills."""
    found = soak(tmp_path, calls=5_000, kills=12, clients=20, changes=2, replicas=2, limit_s=60)

    assert not faults(found), faults(found)
    assert found.kills >= 5
    assert found.connections >= 20
    assert found.changes >= 2
    assert found.calls > sum(found.failed.values())
