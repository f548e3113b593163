"""The code of a worker process: one conversion, which returns errors as replies."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from toolgate.documents.formats.conversion import ConvertedDocument, convert
from toolgate.errors import DocumentError, MissingExtraError, ToolgateError

WORKER_FUNCTION: Final = "toolgate.documents.formats.worker:answer"
"""The function that a worker runs."""

_ERRORS: Final[Mapping[str, type[ToolgateError]]] = {
    kind.code: kind for kind in (DocumentError, MissingExtraError)
}


def answer(request: Mapping[str, Any], data: bytes) -> Mapping[str, Any]:
    """Return a converted file as JSON, or why it cannot be converted.

    Args:
        request: The other arguments of `convert`.
        data: Content of the file.
    """
    try:
        converted = convert(request["name"], data, **request["options"])
    except (DocumentError, MissingExtraError) as error:
        words = {"failed": error.failed, "allowed": error.allowed, "hint": error.hint}
        return {"code": error.code, "words": {key: _valid(text) for key, text in words.items()}}
    fields = asdict(converted)
    return {"converted": fields | {key: _valid(fields[key]) for key in ("text", "title")}}


def received(reply: Mapping[str, Any]) -> ConvertedDocument:
    """Return the converted file in a reply.

    Raises:
        DocumentError: It cannot be converted.
        MissingExtraError: A library for it is not installed.
    """
    if "code" in reply:
        raise _ERRORS.get(reply["code"], DocumentError)(**reply["words"])
    return ConvertedDocument(**reply["converted"])


def _valid(text: str) -> str:
    """Replace lone surrogates, which files may contain and JSON may not, by question marks."""
    return text.encode("utf-8", "replace").decode()
