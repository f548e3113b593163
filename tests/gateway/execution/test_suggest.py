"""An unknown key is answered with those that were probably meant."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.gateway.execution import nearest

KEYS = [
    "github:create_issue",
    "github:list_issues",
    "github:merge_pull_request",
    "gitlab:create_issue",
    "files:readFile",
    "weather:get-forecast",
]


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("github__create_issue", "github:create_issue"),
        ("GitHub:createIssue", "github:create_issue"),
        ("github.create-issue", "github:create_issue"),
        ("githb:creat_isue", "github:create_issue"),
        ("github:create_issues", "github:create_issue"),
        ("create_issue", "github:create_issue"),
        ("read_file", "files:readFile"),
        ("forecast", "weather:get-forecast"),
        ("gitlab:list_issues", "github:list_issues"),
    ],
)
def test_the_meant_key_is_first(asked: str, first: str) -> None:
    assert nearest(asked, KEYS)[0] == first


def test_no_more_than_three_are_named() -> None:
    assert nearest("github:issue", [f"github:issue_{n}" for n in range(50)]) == [
        "github:issue_0",
        "github:issue_1",
        "github:issue_2",
    ]


@pytest.mark.parametrize("asked", ["", "zzzzzz", "::", "💥", "x" * 100_000])
def test_nothing_alike_suggests_nothing(asked: str) -> None:
    assert nearest(asked, KEYS) == []


def test_exposed_names_are_compared_as_keys_are() -> None:
    assert nearest("create_issue", ["mail__send", "github__create_issue"]) == [
        "github__create_issue"
    ]


@settings(deadline=None)
@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=10))
def test_any_text_is_answered_from_the_keys(asked: str, keys: list[str]) -> None:
    found = nearest(asked, keys)

    assert len(found) <= 3
    assert set(found) <= set(keys)


def test_thousands_of_keys_are_no_trouble() -> None:
    keys = [f"server{n % 50}:tool_{n}" for n in range(5_000)]

    assert nearest("server7:tool_1207", keys)[0] == "server7:tool_1207"
