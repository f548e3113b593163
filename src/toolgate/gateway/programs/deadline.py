"""The time limit of a program and its calls."""

from collections.abc import Generator
from contextlib import contextmanager
from math import inf
from typing import Any

import anyio

from toolgate.errors import ProgramError


class ProgramDeadline:
    """Stops a program that takes too long, with an error that says so."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._limit = anyio.fail_after(timeout_s)
        self._scope: anyio.CancelScope | None = None
        self._pauses = 0
        self._left_s = timeout_s

    def __enter__(self) -> None:
        self._scope = self._limit.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        try:
            return self._limit.__exit__(*error)
        except TimeoutError:
            raise ProgramError(
                f"The program and its calls took longer than {self._timeout_s:g} seconds.",
                hint="The audit log has the calls that it made. Make it do less.",
            ) from None

    @contextmanager
    def paused(self) -> Generator[None]:
        """Do not count the time in which a person is asked; pauses may overlap."""
        assert self._scope is not None
        if not self._pauses:
            self._left_s = self._scope.deadline - anyio.current_time()
            self._scope.deadline = inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._scope.deadline = anyio.current_time() + self._left_s
