"""How requests that arrive at once start, and when those that wait make the gateway overloaded."""

import asyncio
from collections import Counter

from anyio.lowlevel import checkpoint

from toolgate.server.asgi.running_requests import RunningRequests


async def test_few_requests_start_in_one_turn_of_the_loop_and_in_their_order() -> None:
    requests, turn = RunningRequests(), 0
    starts: list[tuple[int, int]] = []

    async def start(number: int) -> None:
        await requests.wait_to_start()
        starts.append((turn, number))

    waiting = [asyncio.create_task(start(number)) for number in range(100)]
    while not all(task.done() for task in waiting):
        await checkpoint()
        turn += 1
    assert [number for _, number in starts] == list(range(100))
    assert max(Counter(when for when, _ in starts).values()) < 10
    assert turn < 100


async def test_a_request_whose_client_goes_while_it_waits_takes_no_turn() -> None:
    requests = RunningRequests()
    waiting = [asyncio.create_task(requests.wait_to_start()) for _ in range(100)]
    await checkpoint()
    for task in waiting[:90]:
        task.cancel()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert done[90:] == [None] * 10


async def test_requests_that_wait_too_long_to_start_are_overload() -> None:
    """The delay of the loop alone does not show it: it turns, while they wait."""
    requests = RunningRequests(lambda: 0.0, max_lag_s=0)
    assert requests.refusal_wait_s("a") == 0
    waiting = [asyncio.create_task(requests.wait_to_start()) for _ in range(100)]
    await checkpoint()
    assert requests.refusal_wait_s("a") == 1
    await asyncio.gather(*waiting)
    assert requests.refusal_wait_s("a") == 0
