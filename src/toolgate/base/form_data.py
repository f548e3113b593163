"""Parses the fields of HTML forms, within limits on bytes and fields."""

from dataclasses import dataclass
from urllib.parse import parse_qsl


class FormTooLargeError(Exception):
    """A form has more bytes or fields than allowed; the message is for people."""


@dataclass(frozen=True, kw_only=True)
class FormLimits:
    """Size limits of a form."""

    max_bytes: int
    """Largest size of the encoded form in bytes."""

    max_fields: int
    """Largest number of fields, counting each value of a repeated field."""

    max_repeated: int
    """Most characters of input that a page repeats, counted as HTML."""

    def check_size(self, size: int) -> None:
        """Check the size of a body in bytes.

        Raises:
            FormTooLargeError: The body is larger than `max_bytes`.
        """
        if size > self.max_bytes:
            raise FormTooLargeError(f"The form is larger than {self.max_bytes // 1024:,} KB.")


ANONYMOUS_FORM = FormLimits(max_bytes=64 * 2**10, max_fields=100, max_repeated=16 * 2**10)
"""Before login: room for a token, and for a form filled in before the session ended (chosen)."""

USER_FORM = FormLimits(max_bytes=4 * 2**20, max_fields=5_000, max_repeated=32 * 2**20)
"""For users: larger than any console form with the longest texts it accepts (chosen)."""


def parse_form(body: bytes, limits: FormLimits) -> dict[str, list[str]]:
    """Parse a form into the values of each field. Line breaks become line feeds.

    Args:
        body: `application/x-www-form-urlencoded` in UTF-8; invalid bytes are replaced.
        limits: Size limits for this sender.

    Raises:
        FormTooLargeError: The form has more bytes or fields.
    """
    limits.check_size(len(body))
    # Counted before any text is decoded; `parse_qsl` accepts no other separator.
    if body.count(b"&") >= limits.max_fields:
        raise FormTooLargeError(f"The form has more than {limits.max_fields:,} fields.")
    form: dict[str, list[str]] = {}
    for name, value in parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True):
        form.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return form
