"""What Toolgate hands out and gets back cannot be made or altered by others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgate.base.signing import Signer
from toolgate.errors import HandleError

SIGNER = Signer(b"k" * 32)
PAYLOADS = st.dictionaries(st.text(), st.integers() | st.text())


@given(PAYLOADS)
def test_a_signed_payload_comes_back(payload: dict[str, object]) -> None:
    assert SIGNER.check("handle", SIGNER.sign("handle", payload)) == payload


@given(PAYLOADS, st.data())
def test_any_change_is_noticed(payload: dict[str, object], data: st.DataObject) -> None:
    signed = SIGNER.sign("handle", payload)
    place = data.draw(st.integers(0, len(signed) - 1))
    letter = data.draw(st.sampled_from("Aa0_-.x").filter(lambda c: c != signed[place]))
    altered = signed[:place] + letter + signed[place + 1 :]
    assert not SIGNER.signed("handle", altered)


@given(st.text())
def test_any_other_text_is_refused_with_a_clear_error(text: str) -> None:
    with pytest.raises(HandleError, match="not issued by this gateway"):
        SIGNER.check("handle", text)


def test_a_string_is_good_for_its_purpose_and_its_installation_alone() -> None:
    signed = SIGNER.sign("handle", {"a": 1})
    assert not SIGNER.signed("requestState", signed)
    assert not Signer(b"x" * 32).signed("handle", signed)
