"""Exposed names: what every client can take, whatever servers call their tools."""

import re

from hypothesis import given
from hypothesis import strategies as st

from toolgate.catalog import exposed_names, fold

SERVERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.-]{0,31}", fullmatch=True)
TOOLS = st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=8, unique=True)


@given(server=SERVERS, tools=TOOLS, limit=st.integers(24, 64))
def test_names_are_short_safe_and_different_even_when_folded(
    server: str, tools: list[str], limit: int
) -> None:
    """One client lower-cases names and folds `__`, others allow only letters, digits, `_`, `-`."""
    names = exposed_names(server, tools, limit=limit)

    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) for name in names)
    assert all(len(name) <= limit for name in names)
    assert len({fold(name) for name in names}) == len(tools)


@given(server=SERVERS, tools=TOOLS)
def test_a_name_does_not_depend_on_the_order_of_the_tools(server: str, tools: list[str]) -> None:
    there = dict(zip(tools, exposed_names(server, tools, limit=48), strict=True))
    back = dict(zip(tools[::-1], exposed_names(server, tools[::-1], limit=48), strict=True))

    assert there == back


def test_ordinary_names_stay_readable() -> None:
    assert exposed_names("github", ["create_issue", "list-repos"], limit=48) == [
        "github__create_issue",
        "github__list-repos",
    ]
    assert exposed_names("my_server.eu", ["echo"], limit=48) == ["my-server-eu__echo"]


def test_a_changed_name_ends_in_a_hash_of_its_own_key() -> None:
    (long,) = exposed_names("s", ["x" * 100], limit=48)
    (dotted,) = exposed_names("s", ["a.b"], limit=48)

    assert re.fullmatch(r"s__x+_[a-z2-7]{8}", long)
    assert len(long) == 48
    assert re.fullmatch(r"s__a_b_[a-z2-7]{8}", dotted)


def test_two_names_of_one_server_that_fold_together_are_told_apart() -> None:
    names = exposed_names("s", ["getUser", "getuser", "other"], limit=48)

    assert names[2] == "s__other"
    assert len({fold(name) for name in names}) == 3
