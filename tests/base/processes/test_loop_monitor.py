"""Stalls of the event loop are seen, with what it ran."""

import gc
import time
import weakref

import anyio

from tests.limits import HANG_S
from toolgate.base.processes.loop_monitor import STALL_S, LoopMonitor


def block_the_loop(monitor: LoopMonitor) -> None:
    """Run until the thread beside the loop has seen it."""
    deadline = time.monotonic() + HANG_S
    while not monitor._stack:
        assert time.monotonic() < deadline
        time.sleep(STALL_S)


async def test_the_worst_stall_is_kept_with_its_stack() -> None:
    monitor = LoopMonitor()
    with monitor.watching(lambda: True):
        await anyio.sleep(0)
        block_the_loop(monitor)
        with anyio.fail_after(HANG_S):
            while monitor.worst is None or "block_the_loop" not in monitor.worst.stack:
                await anyio.sleep(STALL_S / 10)
    assert monitor.worst.seconds > STALL_S
    assert monitor.worst.cpu_s < monitor.worst.seconds
    assert monitor.stalls >= 1
    assert monitor.lag_s > 0


async def test_a_stall_uses_no_more_cpu_time_than_it_took() -> None:
    """What the loop had done since the last look, up to a quarter of a second, was added to it."""
    monitor = LoopMonitor()
    with monitor.watching(lambda: False):
        due = monitor._due
        while time.monotonic() < due - STALL_S:
            await anyio.sleep(0)
        while time.monotonic() < due + 2 * STALL_S:
            pass
        with anyio.fail_after(HANG_S):
            while monitor.worst is None:
                await anyio.sleep(STALL_S / 10)
    assert monitor.worst.cpu_s <= monitor.worst.seconds


async def test_nothing_is_watched_after_the_block() -> None:
    monitor = LoopMonitor()
    with monitor.watching(lambda: False):
        pass
    stalls = monitor.stalls
    await anyio.sleep(0)
    assert (monitor.stalls, monitor._timer is not None and monitor._timer.cancelled()) == (
        stalls,
        True,
    )


async def test_nothing_is_watched_after_blocks_that_overlap() -> None:
    """Two servers on one gateway left a timer that ran on, with all that the gateway held."""

    def is_busy() -> bool:
        return True

    monitor = LoopMonitor()
    kept = weakref.ref(is_busy)
    first, second = monitor.watching(is_busy), monitor.watching(is_busy)
    for block in (first, second):
        block.__enter__()
    for block in (first, second):
        block.__exit__(None, None, None)
    del first, second, block, is_busy
    gc.collect()

    assert kept() is None
