"""Looking texts over takes time by their length, whatever they are made of."""

import pytest

from toolgate.catalog.scanner.scanner import Scanner


@pytest.mark.parametrize(
    "text",
    ["x" * 100_000, "1a" * 50_000, "a." * 50_000, "x" * 100_000 + " @"],
    ids=["x", "1a", "a.", "x @"],
)
def test_a_text_of_100_kb_without_words_is_looked_over_in_time(text: str) -> None:
    """Regression: a word of 100,000 letters took minutes, each time its server was listed."""
    assert Scanner().scan({"name": "t", "description": text}, server="s") == ()
