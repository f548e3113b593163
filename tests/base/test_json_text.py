"""JSON in and out: what servers and clients send keeps its values."""

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.base import json_text

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    assert json_text.loads(json_text.dumps(value)) == value


@given(st.integers())
def test_integers_keep_all_their_digits(number: int) -> None:
    """orjson alone turns those beyond 64 bits into floats."""
    assert json_text.loads(str(number)) == number


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", '{"a": NaN}', "1e999", "[1,]", ""]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_text.loads(text)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_json_cannot_say_is_never_written(value: float) -> None:
    """null or an error, but no text that others cannot read."""
    try:
        written = json_text.dumps({"a": value})
    except ValueError:
        return
    assert json.loads(written) == {"a": None}


def test_lone_surrogates_become_replacement_characters() -> None:
    """Python and JavaScript can hold them, UTF-8 cannot."""
    assert json_text.loads('"a\\ud800b"') == "a\ufffdb"
    assert json.loads(json_text.dumps("a\ud800b")) == "a\ufffdb"


def test_deep_nesting_is_refused_and_does_not_crash() -> None:
    with pytest.raises(ValueError, match=r"."):
        json_text.loads(b"[" * 100_000 + b"]" * 100_000)


@given(st.binary())
def test_any_bytes_give_a_value_or_a_value_error(data: bytes) -> None:
    with suppress(ValueError):
        json_text.loads(data)
