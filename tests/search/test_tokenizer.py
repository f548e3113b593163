"""Words are cut the same way on both sides, so that what is written one way is found in another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolgate.search.tokenizer import fold, split_identifier, terms, words


def terms_of(text: str) -> set[str]:
    return {term for word in words(text) for term in terms(word)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("create_issue", "createIssue"),
        ("create-issue", "CREATE ISSUE"),
        ("createIssue", "creating issues"),
        ("HTTPServer", "http server"),
        ("paperswithcode", "papers_with_code"),
        ("base64", "base 64"),
        ("e-mail", "email"),
        ("naïve café", "naive cafe"),
        ("Straße", "strasse"),
        ("ＡＰＩ", "api"),
        ("查询天气", "天气"),
        ("東京タワー", "タワー"),
        ("날씨를", "날씨"),
        ("พยากรณ์อากาศ", "อากาศ"),
        ("Москва", "МОСКВА"),
        ("сообщение", "сообщениями"),
        ("повідомлення", "повідомленням"),
        ("αρχείο", "αρχεία"),
        ("الملفات", "ملف"),
        ("בתיבת", "תיבת"),
        ("फ़ाइलें", "फ़ाइल"),
        ("İSTANBUL", "istanbul"),
    ],
)
def test_two_spellings_share_a_term(one: str, other: str) -> None:
    assert terms_of(one) & terms_of(other)


def test_an_identifier_counts_by_its_parts_and_whole() -> None:
    assert terms("getUserById") == ("get", "user", "by", "id", "getuserbyid")


def test_the_parts_of_a_name_keep_their_spelling() -> None:
    assert split_identifier("createIssue_v2") == ["create", "Issue", "v", "2"]


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_terms_that_are_folded(text: str) -> None:
    """Idempotent, so a term of a tool and a term of a request are compared alike."""
    for term in terms_of(text):
        assert term
        assert fold(term) == term


@settings(deadline=None)
@given(st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=40))
def test_letters_and_digits_of_any_script_are_never_lost(text: str) -> None:
    assert terms_of(text)
