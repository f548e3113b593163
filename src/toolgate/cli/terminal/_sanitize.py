"""Text of servers made harmless for whoever reads it. Loads nothing, so that `serve` can use it."""

import re

__all__ = ["CONTROL_CHARACTERS", "one_line", "sanitize"]

CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, of which C1 has a CSI of its own
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"  # marks of direction, and what is not seen at all
)
"""Characters that steer a terminal, turn the order of others, or hide. Joiners are none of them:
Persian, Indic scripts and emoji are spelled with them."""


def sanitize(text: str) -> str:
    """A text of others without what steers a terminal or hides; its lines and tabs stay."""
    return CONTROL_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The same on one line: a name or a sentence cannot pose as a line of ours."""
    return sanitize(" ".join(text.split()))
