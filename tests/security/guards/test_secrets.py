"""Secrets in texts: what is found, what is not, and what is left of a text."""

import json
from collections import Counter
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.security.guards import secret_scanner
from toolgate.security.guards.secret_detection import secret_detectors

KNOWN = [(one, text) for one, texts in secret_detectors() for text in texts["samples"]]
OTHERS = [(one.name, text) for one, texts in secret_detectors() for text in texts["others"]]
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.just(f"key {KEY}."),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@pytest.mark.parametrize(("detector", "text"), KNOWN, ids=[one.name for one, _ in KNOWN])
def test_each_kind_of_secret_is_found_in_its_own_form(detector: Any, text: str) -> None:
    assert list(detector.spans(text))
    counts: Counter[str] = Counter()
    masked = secret_scanner().mask(f"before {text} after", counts)
    assert counts
    assert masked.startswith("before ")
    assert not secret_scanner().find(masked)


@pytest.mark.parametrize(("name", "text"), OTHERS, ids=[name for name, _ in OTHERS])
def test_what_only_looks_similar_is_left_alone(name: str, text: str) -> None:
    assert secret_scanner().find(text) == []


def test_definitions_of_real_tools_hold_no_secrets() -> None:
    """642 tools of published servers talk of keys and tokens all the time."""
    path = Path(__file__).parents[3] / "benchmarks" / "data" / "real_tools.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    alarms = [
        (found, json.loads(line).get("name"))
        for line in lines
        if (found := secret_scanner().find(line))
    ]
    assert len(lines) > 600
    assert alarms == []


@given(_json)
def test_masking_leaves_nothing_and_changes_nothing_else(value: Any) -> None:
    counts: Counter[str] = Counter()
    masked = secret_scanner().mask_json(value, counts)
    assert KEY not in json.dumps(masked)
    if not counts:
        assert masked is value
    again: Counter[str] = Counter()
    assert secret_scanner().mask_json(masked, again) == masked
    assert not again


@given(st.text(max_size=400))
def test_no_text_is_too_strange_to_be_looked_at(text: str) -> None:
    for found in secret_scanner().find(text):
        assert 0 <= found.start < found.end <= len(text)


def test_members_that_are_called_so_hold_secrets_whatever_they_look_like() -> None:
    counts: Counter[str] = Counter()
    given_value = {
        "user": "anna",
        "password": "letmein1",
        "apiKey": "abcdefgh",
        "token_count": "many of them",
    }
    masked = secret_scanner().mask_json(given_value, counts)
    assert masked == {
        "user": "anna",
        "password": "[named_secret masked]",
        "apiKey": "[named_secret masked]",
        "token_count": "many of them",
    }


def test_pictures_are_not_looked_into() -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": f"AAAA{KEY}"}
    counts: Counter[str] = Counter()
    assert secret_scanner().mask_json({"content": [picture]}, counts) == {"content": [picture]}


@pytest.mark.parametrize(
    "text",
    [
        "token=" * 20_000,
        "-----BEGIN PRIVATE KEY-----" * 3_000,
        "a" * 200_000 + "sk-",
        "eyJ" * 60_000,
        'password="' + "x" * 100_000,
        "://" + "a:" * 50_000 + "@",
    ],
)
def test_no_text_makes_looking_slow(text: str) -> None:
    began = process_time()
    secret_scanner().find(text)
    assert process_time() - began < 2.0
