"""The short form of `python -m benchmarks tail`: fewer servers and clients."""

from pathlib import Path

import pytest

from benchmarks.server_farm import SLOW_S
from benchmarks.tail import Scene, run_tail

pytestmark = pytest.mark.real

SCENE = Scene(healthy=20, slow=6, dead=3, flapping=2, clients=24, seconds=2)


def test_calls_of_healthy_servers_are_answered_beside_slow_dead_and_flapping_ones(
    tmp_path: Path,
) -> None:
    """Calls are answered or refused with `Retry-After`, and none waits for another server.

    Throughput is compared per CPU second: other tests use the processor at the same time.
    """
    tail = run_tail(tmp_path, SCENE)
    for load in (tail.peak, tail.half, tail.direct, tail.proxy, tail.double):
        assert not load.failed
        assert len(load.latencies_s) > SCENE.clients
        assert load.quantile_ms(0.5) < 1000 * SLOW_S
    assert tail.double.per_cpu_s > tail.peak.per_cpu_s / 2
