"""Remove control characters from server texts. Imports nothing, so that `serve` can use it."""

import re

CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters; C1 includes CSI
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"  # bidirectional marks and invisible characters
)
"""Characters that control a terminal, change the text direction, or are invisible. Joiners stay:
Persian, Indic scripts and emoji need them."""


def sanitize(text: str) -> str:
    """Replace control and invisible characters; line breaks and tabs stay."""
    return CONTROL_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Sanitize to a single line, so that text of servers cannot imitate further output lines."""
    return sanitize(" ".join(text.split()))
