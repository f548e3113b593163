"""The estimate of tokens that all budgets and figures use."""


def estimate_tokens(text: str | bytes) -> int:
    """Estimated tokens of a text: UTF-8 bytes divided by four, rounded up; 0 for an empty text.

    Four bytes per token is the usual rule of thumb for English and JSON. A better tokenizer can
    replace it here, which changes every budget and figure at once.
    """
    if isinstance(text, str) and not text.isascii():
        text = text.encode("utf-8", "replace")
    return -(-len(text) // 4)
