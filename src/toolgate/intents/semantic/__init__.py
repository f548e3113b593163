"""The classifier that learns intents from example prompts."""

from toolgate.intents.semantic.message_splitting import split_requests

__all__ = ["split_requests"]
