"""What the servers are for, in a few words: within its budget, and always the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.base.token_estimate import estimate_tokens
from toolgate.search import server_summary

SERVERS = {
    "github": ["create_issue", "list_issues", "list_branches", "github_get_me"],
    "slack": ["post_message", "list_channels", "list_users"],
}


@pytest.mark.parametrize(
    ("max_tokens", "summary"),
    [
        (15, "github (issues, branches), slack (channels, message, users)"),
        (14, "github (issues, branches), slack (channels, message)"),
        (9, "github (issues), slack (channels)"),
        (4, "github, slack"),
        (3, ""),
    ],
)
def test_topics_go_before_servers(max_tokens: int, summary: str) -> None:
    assert server_summary(SERVERS, max_tokens=max_tokens) == summary


def test_of_many_servers_the_first_are_named() -> None:
    many = {f"server-{number}": ["run"] for number in range(50)}

    assert server_summary(many, max_tokens=12) == "server-0, server-1, server-2 and 47 more"


@given(
    st.dictionaries(st.text(max_size=60), st.lists(st.text(max_size=80), max_size=8), max_size=60),
    st.integers(0, 120),
)
def test_any_names_stay_within_the_budget(tools: dict[str, list[str]], max_tokens: int) -> None:
    summary = server_summary(tools, max_tokens=max_tokens)

    assert not summary or estimate_tokens(summary) <= max_tokens
    assert "\n" not in summary
    assert summary == server_summary(dict(tools), max_tokens=max_tokens)
