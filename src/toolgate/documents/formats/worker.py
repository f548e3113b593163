"""What runs in a worker process: one conversion, with its errors as answers."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from toolgate.documents.formats.conversion import ConvertedDocument, convert
from toolgate.errors import DocumentError, MissingExtraError, ToolgateError

__all__ = ["WORKER_FUNCTION", "answer", "received"]

WORKER_FUNCTION: Final = "toolgate.documents.formats.worker:answer"
"""What a worker runs."""

_ERRORS: Final[Mapping[str, type[ToolgateError]]] = {
    kind.code: kind for kind in (DocumentError, MissingExtraError)
}


def answer(request: Mapping[str, Any], data: bytes) -> Mapping[str, Any]:
    """A converted file as JSON, or why it cannot be converted.

    Args:
        request: The other arguments of `convert`.
        data: What is in the file.
    """
    try:
        converted = convert(request["name"], data, **request["options"])
    except (DocumentError, MissingExtraError) as error:
        words = {"failed": error.failed, "allowed": error.allowed, "hint": error.hint}
        return {"code": error.code, "words": {key: _valid(text) for key, text in words.items()}}
    fields = asdict(converted)
    return {"converted": fields | {key: _valid(fields[key]) for key in ("text", "title")}}


def received(reply: Mapping[str, Any]) -> ConvertedDocument:
    """The converted file in an answer.

    Raises:
        DocumentError: It cannot be converted.
        MissingExtraError: A library for it is not installed.
    """
    if "code" in reply:
        raise _ERRORS.get(reply["code"], DocumentError)(**reply["words"])
    return ConvertedDocument(**reply["converted"])


def _valid(text: str) -> str:
    """Half a pair of UTF-16, which files can hold and JSON cannot, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
