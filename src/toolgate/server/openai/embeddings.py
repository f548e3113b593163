"""OpenAI's embeddings API on top of the embedder of the search.

https://platform.openai.com/docs/api-reference/embeddings
"""

import base64
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from toolgate.base.token_estimate import estimate_tokens
from toolgate.errors import ArgumentError, UnknownModelError
from toolgate.models.embedders import Embedder, TextKind, embedded
from toolgate.types import Json, json_array

_MOST_TEXTS = 2_048
"""Largest number of texts in a request, as at OpenAI."""
_NAME = "toolgate"
"""Model name that stands for any embedder."""
_KINDS: dict[object, TextKind] = {
    None: "document",
    "document": "document",
    "passage": "document",
    "query": "query",
}


@dataclass(frozen=True, kw_only=True)
class EmbeddingsRequest:
    """A request for embeddings of texts."""

    texts: tuple[str, ...]
    """The texts, at least one."""

    kind: TextKind
    """Whether the texts are search queries or documents to find."""

    encoding: Literal["float", "base64"]
    """Encoding of the vectors."""


def read_embeddings(body: Json, embedder: str) -> EmbeddingsRequest:
    """Return the embeddings request in a body.

    Args:
        body: Body of the request.
        embedder: Name of the configured embedder.

    Raises:
        ArgumentError: The request is invalid or not supported.
        UnknownModelError: The request names another model.
    """
    model: object = body.get("model") or embedder
    if model not in (embedder, _NAME):  # a list or an object has no hash
        raise UnknownModelError(
            f"There is no embedding model {model!r:.80}.",
            allowed=f"Allowed: {embedder}, {_NAME}.",
        )
    given: object = body.get("input")
    texts = [given] if isinstance(given, str) else json_array(given)
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise ArgumentError(
            "'input' is neither a string nor a list of strings, or a string is empty.",
            allowed="Allowed: a text, or a list of texts that are not empty.",
            hint="Send texts instead of numbers of tokens.",
        )
    if len(texts) > _MOST_TEXTS:
        raise ArgumentError(
            f"'input' has {len(texts):,} texts.", allowed=f"Allowed: 1 to {_MOST_TEXTS:,}."
        )
    if body.get("dimensions") is not None:
        raise ArgumentError(
            "'dimensions' is not supported.", hint="Leave it out: the model has a fixed size."
        )
    encoding: object = body.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise ArgumentError(
            f"'encoding_format' is {encoding!r:.60}.", allowed="Allowed: float, base64."
        )
    kind: object = body.get("input_type")
    if isinstance(kind, list | dict) or kind not in _KINDS:
        raise ArgumentError(
            f"'input_type' is {kind!r:.60}.", allowed="Allowed: document, passage, query."
        )
    return EmbeddingsRequest(
        texts=tuple(cast("list[str]", texts)),
        kind=_KINDS[kind],
        encoding="base64" if encoding == "base64" else "float",
    )


async def embeddings(embedder: Embedder, request: EmbeddingsRequest) -> Json:
    """Return the response of the embeddings API: unit vectors in the order of the texts.

    Raises:
        EmbedderError: The embedder failed.
    """
    vectors = await embedded(embedder, request.texts, request.kind)
    n_tokens = sum(map(estimate_tokens, request.texts))
    return {
        "object": "list",
        "model": embedder.identity,
        "data": [
            {
                "object": "embedding",
                "index": at,
                "embedding": base64.b64encode(vector.astype("<f4").tobytes()).decode()
                if request.encoding == "base64"
                else np.asarray(vector, np.float32).tolist(),
            }
            for at, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
    }
