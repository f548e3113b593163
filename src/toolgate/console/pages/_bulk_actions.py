"""An action on several selected rows of a page."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from toolgate.errors import StoreError, ToolgateError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class BulkOutcome(Generic[T]):
    """What an action did with each of the selected rows."""

    done: Sequence[T]
    """Results for the rows with which it succeeded; at least one."""

    errors: Sequence[ToolgateError]
    """Why it failed with the others."""

    @property
    def failures(self) -> str:
        """Sentences that name all failures, with a space in front; empty if there are none."""
        reasons = dict.fromkeys(error.failed for error in self.errors)
        return f" {len(self.errors)} failed: {' '.join(reasons)}" if self.errors else ""


async def for_each(names: Sequence[str], act: Callable[[str], Awaitable[T]]) -> BulkOutcome[T]:
    """Apply an action to every row, also after it failed with one.

    Args:
        names: Names or ids of the rows, at least one.
        act: The action.

    Raises:
        StoreError: The store failed, so that the other rows would fail as well.
        ToolgateError: The action failed with every row; the error of the first.
    """
    done: list[T] = []
    errors: list[ToolgateError] = []
    for name in names:
        try:
            done.append(await act(name))
        except StoreError:
            raise
        except ToolgateError as error:
            errors.append(error)
    if not done:
        raise errors[0]
    return BulkOutcome(done=done, errors=errors)
