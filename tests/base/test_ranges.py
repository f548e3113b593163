"""Options within their ranges."""

from dataclasses import dataclass

import pytest

from toolgate.base.ranges import check_ranges, check_url
from toolgate.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class Sizes:
    width: float | None = 1.0
    count: int = 1


@pytest.mark.parametrize("sizes", [Sizes(), Sizes(width=0), Sizes(width=2), Sizes(width=None)])
def test_both_ends_of_a_range_and_a_default_are_within_it(sizes: Sizes) -> None:
    check_ranges(sizes, {"width": (0, 2), "count": (1, 5_000)})


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (Sizes(width=2.5), "Option 'width' is 2.5. Allowed: 0 to 2."),
        (Sizes(width=float("nan")), "Option 'width' is nan. Allowed: 0 to 2."),
        (Sizes(count=0), "Option 'count' is 0. Allowed: 1 to 5,000."),
    ],
    ids=["above", "no number", "below"],
)
def test_what_is_outside_is_named_with_what_is_allowed(sizes: Sizes, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_ranges(sizes, {"width": (0, 2), "count": (1, 5_000)})

    assert str(refused.value) == said


@pytest.mark.parametrize("url", ["", "ftp://x", "example.org"])
def test_an_address_that_is_none_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_url(url)

    assert refused.value.option == "url"
