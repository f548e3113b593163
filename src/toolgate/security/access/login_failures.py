"""Counts wrong credentials by address and token prefix, and delays clients that guess."""

from collections import deque
from collections.abc import Hashable
from time import monotonic

from toolgate.security.addresses import client_network

# Failures of one address, or with one token prefix, within `_WINDOW_S` seconds that are answered
# without a delay. Chosen: a person who mistypes needs fewer, and guessing gains nothing from them.
_MAX_FAILURES = 10
_WINDOW_S = 60.0
"""Seconds in which failures are counted together (chosen)."""
# Maximum number of addresses and prefixes in memory; the oldest are removed first. Chosen: a few
# MB.
_MAX_REMEMBERED = 10_000


class LoginFailures:
    """Counts failed logins of the last minute. Successful logins are never delayed."""

    def __init__(self) -> None:
        self._failures: dict[Hashable, deque[float]] = {}

    def add(self, address: str, prefix: str) -> float:
        """Count a failure.

        Args:
            address: IP address of the client.
            prefix: Prefix of the token that was sent; empty if it has none.

        Returns:
            Seconds that the client is told to wait; 0 below the limit.
        """
        keys: list[Hashable] = [("address", client_network(address))]
        if prefix:
            keys.append(("prefix", prefix))
        return max(self._count(key) for key in keys)

    def forget(self, prefix: str) -> None:
        """Delete the failures with a token prefix, after a success with it."""
        self._failures.pop(("prefix", prefix), None)

    def _count(self, key: Hashable) -> float:
        now = monotonic()
        times = self._failures.setdefault(key, deque(maxlen=_MAX_FAILURES))
        if len(self._failures) > _MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]
        if len(times) == _MAX_FAILURES and times[0] > now - _WINDOW_S:
            return max(times[0] + _WINDOW_S - now, 1.0)
        times.append(now)
        return 0.0
