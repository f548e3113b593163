"""The failure of a search service; importing it loads no HTTP client."""


class ServiceError(Exception):
    """There is no usable answer. The text says why in a few words, and contains no secret."""
