"""Checks that options are in range, with one kind of message.

Whoever has the options knows nothing of where they are written: `plugins` adds that.
"""

from collections.abc import Mapping

from toolgate.errors import OptionError

__all__ = ["check_ranges", "check_url", "unfit"]


def check_ranges(options: object, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Check that numbers are within their ranges, both ends included.

    Args:
        options: A value with these attributes; one that is None stands for a default.
        ranges: Lowest and highest value by name.

    Raises:
        OptionError: One is outside, or no number at all.
    """
    for name, (low, high) in ranges.items():
        value = getattr(options, name)
        if value is not None and not low <= value <= high:
            raise unfit(name, value, f"{_plain(low)} to {_plain(high)}")


def check_url(url: str, name: str = "url") -> None:
    """Check that an address is one of the web.

    Raises:
        OptionError: It is not.
    """
    if not url.startswith(("http://", "https://")):
        raise unfit(name, url, "addresses with http:// or https://")


def unfit(option: str, value: object, allowed: str, *, hint: str = "") -> OptionError:
    """The error for an option with a value that cannot be used.

    Args:
        option: Its name in its own table.
        value: What came; no secret.
        allowed: What could have come, without the word.
        hint: What to do; left out, the table is named where it is corrected.
    """
    error = OptionError(
        f"Option {option!r} is {value!r}.", allowed=f"Allowed: {allowed}.", hint=hint
    )
    error.option = option
    error.problem = repr(value)
    return error


def _plain(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,g}"
