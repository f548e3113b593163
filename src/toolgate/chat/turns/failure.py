"""The message for the user when a turn fails."""

from toolgate.errors import (
    ContextTooLongError,
    MissingExtraError,
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
    ToolgateError,
)
from toolgate.models.llm import said_by

NO_ANSWER = "I'm sorry, I was unable to produce a response."
"""Answer if a model answers nothing."""


def friendly(error: Exception, *, issue_url: str = "") -> str:
    """Return one sentence for the user about what went wrong, without traceback and secrets."""
    match error:
        case ContextTooLongError():
            context = " with the length of our conversation"
        case ModelUnavailableError() | ModelTimeoutError():
            context = " connecting to LLM API"
        case ModelError():
            context = " generating completion"
        case _:
            context = ""
    reason = said_by(error.failed if isinstance(error, ToolgateError) else str(error))
    if isinstance(error, ContextTooLongError | MissingExtraError):
        reason = said_by(str(error))  # who reads it can do something about it
    if not isinstance(error, ToolgateError) or not reason:
        reason = "an internal error; the log of the gateway says more."
    text = f"I'm sorry, I've run into a problem{context}: {reason}"
    if issue_url:
        text = f"{text.rstrip('.')}. If it happens again, please report it: {issue_url}"
    return text
