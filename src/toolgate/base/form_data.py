"""Parses the fields of HTML forms, within limits on bytes and fields."""

from dataclasses import dataclass
from urllib.parse import parse_qsl

__all__ = ["ANONYMOUS_FORM", "USER_FORM", "FormLimits", "FormTooLargeError", "parse_form"]


class FormTooLargeError(Exception):
    """A form has more bytes or fields than its sender may send; the text is for people."""


@dataclass(frozen=True, kw_only=True)
class FormLimits:
    """How large a form may be."""

    max_bytes: int
    """Bytes of the encoded form."""

    max_fields: int
    """Fields, each value of a repeated one counted."""

    def check_size(self, size: int) -> None:
        """Refuse a body of more bytes.

        Raises:
            FormTooLargeError: It is larger.
        """
        if size > self.max_bytes:
            raise FormTooLargeError(f"The form is larger than {self.max_bytes // 1024:,} KB.")


ANONYMOUS_FORM = FormLimits(max_bytes=64 * 2**10, max_fields=100)
"""For anyone who has not logged in: a token, and a form typed before the session ended. Chosen."""

USER_FORM = FormLimits(max_bytes=4 * 2**20, max_fields=5_000)
"""For users: larger than any form of the console with the longest texts it accepts. Chosen."""


def parse_form(body: bytes, limits: FormLimits) -> dict[str, list[str]]:
    """The values of each field of a form, with plain line feeds.

    Args:
        body: `application/x-www-form-urlencoded` in UTF-8; other bytes are replaced.
        limits: What the sender may send.

    Raises:
        FormTooLargeError: There are more bytes or fields.
    """
    limits.check_size(len(body))
    # Before any text is decoded; `parse_qsl` takes no other separator.
    if body.count(b"&") >= limits.max_fields:
        raise FormTooLargeError(f"The form has more than {limits.max_fields:,} fields.")
    form: dict[str, list[str]] = {}
    for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
        form.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return form
