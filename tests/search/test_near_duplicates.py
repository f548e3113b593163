"""What two states of a list have in common."""

import pytest

from toolgate.search.sequence_diff import exchanged, shared_head, shared_tail

OLD = tuple("abcdefg")


@pytest.mark.parametrize("new", ["abcdefg", "abXdefg", "Xabcdefg", "abcdefgX", "bcdefg", "X", ""])
def test_a_list_is_put_together_of_what_stayed_and_what_is_new(new: str) -> None:
    wanted = tuple(new)
    head = shared_head(OLD, wanted)
    tail = shared_tail(OLD, wanted, head)

    assert exchanged(OLD, head, wanted[head : len(wanted) - tail], tail) == wanted
