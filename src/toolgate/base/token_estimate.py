"""The token estimate that everything uses."""

__all__ = ["estimate_tokens"]


def estimate_tokens(text: str | bytes) -> int:
    """Estimated tokens of a text: UTF-8 bytes divided by four, rounded up; 0 for an empty text.

    Four bytes a token is the usual rule of thumb for English and JSON. A better tokenizer may
    replace it here, and then changes every budget and figure at once.
    """
    if isinstance(text, str) and not text.isascii():
        text = text.encode("utf-8", "replace")
    return -(-len(text) // 4)
