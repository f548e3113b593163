"""The embedder `openai`: any service that answers `POST …/embeddings` like OpenAI.

https://platform.openai.com/docs/api-reference/embeddings. Texts leave this machine: descriptions
of tools when they are indexed, and every request.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus

import aiohttp
import anyio
import numpy as np
from numpy.typing import NDArray

from toolgate.base.validation import check_ranges, check_url
from toolgate.errors import EmbedderError
from toolgate.models.embedders.base import Reads, TextKind, Vectors
from toolgate.models.http_session import HttpSession
from toolgate.types import json_array, json_object

log = logging.getLogger(__name__)

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""HTTP statuses after which a retry may succeed."""

_LONGEST_PAUSE_S = 5.0
"""Most seconds to wait when a service sends `retry-after` (chosen)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the embedder `openai`."""

    url: str = "https://api.openai.com/v1"
    """URL of the service, to which `/embeddings` is added."""

    model: str = "text-embedding-3-small"
    """Name of the model at the service."""

    dim: int = 1536
    """Dimension of the vectors, which is checked in responses; 1 to 65,536."""

    reads: Reads = "many"
    """What the model reads: `english`, or `many` languages."""

    shorten: bool = False
    """Whether to request `dim` numbers; some models can return shorter vectors."""

    key: str = ""
    """Bearer token; write `${OPENAI_API_KEY}` and not the token itself."""

    query_prefix: str = ""
    """Text put before requests; some models need it."""

    document_prefix: str = ""
    """Text put before descriptions."""

    batch: int = 64
    """Texts per request; 1 to 2,048."""

    longest: int = 8000
    """Characters after which a text is cut; 1 to 1,000,000."""

    timeout_s: float = 10.0
    """Seconds for one request to the service; 0.1 to 600."""

    retries: int = 2
    """Retries after a temporary failure; 0 to 10."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OptionError: A value is out of range.
        """
        ranges: dict[str, tuple[float, float]] = {
            "dim": (1, 65_536),
            "batch": (1, 2_048),
            "longest": (1, 1_000_000),
            "timeout_s": (0.1, 600),
            "retries": (0, 10),
        }
        check_ranges(self, ranges)
        check_url(self.url)


def build(options: Options) -> "OpenAiEmbedder":
    """Create the embedder; nothing is sent before the first text."""
    return OpenAiEmbedder(options)


class OpenAiEmbedder:
    """Vectors from a service over HTTP."""

    is_remote = True

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session = HttpSession()

    @property
    def identity(self) -> str:
        """Model, dimension, and the options that change the vectors; not the URL of the service."""
        options = self._options
        if not options.query_prefix and not options.document_prefix:
            return f"openai/{options.model}/{options.dim}"
        prefixes = f"{options.query_prefix}\0{options.document_prefix}".encode(errors="replace")
        digest = blake2b(prefixes, digest_size=6).hexdigest()
        return f"openai/{options.model}/{options.dim}/{digest}"

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._options.dim

    @property
    def reads(self) -> Reads:
        """Languages by the options."""
        return self._options.reads

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return vectors of shape `(len(texts), dim)`; texts without letters or signs give zeros.

        Raises:
            EmbedderError: The service did not answer, refused, or sent an invalid response.
        """
        options = self._options
        prefix = options.query_prefix if kind == "query" else options.document_prefix
        vectors = np.zeros((len(texts), options.dim), np.float32)
        # The service rejects empty texts, and lone surrogates are invalid JSON.
        numbers = [number for number, text in enumerate(texts) if text.strip()]
        for at in range(0, len(numbers), options.batch):
            part = numbers[at : at + options.batch]
            sent = [f"{prefix}{texts[number][: options.longest]}" for number in part]
            clean = [text.encode(errors="replace").decode() for text in sent]
            vectors[part] = await self._ask(clean)
        return vectors

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def _ask(self, texts: Sequence[str]) -> NDArray[np.float32]:
        body: dict[str, object] = {
            "model": self._options.model,
            "input": texts,
            "encoding_format": "base64",
        }
        if self._options.shorten:
            body["dimensions"] = self._options.dim
        pause_s = 0.25
        for left in range(self._options.retries, -1, -1):
            try:
                return self._read(await self._post(body), len(texts))
            except _TryAgainError as error:
                if not left:
                    raise EmbedderError(
                        f"The embedding service {self._options.url} failed: {error}.",
                        hint="Check whether it runs, and search.embedder_options.",
                    ) from error
                wanted_s = max(pause_s, error.after_s)
                log.info("embedding again", extra={"reason": str(error), "after_s": wanted_s})
                await anyio.sleep(wanted_s)
                pause_s *= 2
        raise AssertionError("the last turn returns or raises")

    async def _post(self, body: dict[str, object]) -> object:
        options, session = self._options, self._session.open()
        headers = {"authorization": f"Bearer {options.key}"} if options.key else {}
        try:
            with anyio.fail_after(options.timeout_s):
                async with session.post(
                    f"{options.url.rstrip('/')}/embeddings",
                    json=body,
                    headers=headers,
                    allow_redirects=False,
                ) as response:
                    if response.status in _AGAIN:
                        raise _TryAgainError(
                            f"status {response.status}", _pause_s(response.headers)
                        )
                    if response.status != HTTPStatus.OK:
                        raise EmbedderError(
                            f"The embedding service {options.url} refused with status "
                            f"{response.status}.",
                            hint="Check url, model and key in search.embedder_options.",
                        )
                    return await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise _TryAgainError(str(error) or type(error).__name__) from error
        except ValueError as error:
            raise self._odd("no JSON") from error

    def _read(self, answer: object, count: int) -> NDArray[np.float32]:
        rows = json_array(json_object(answer).get("data"))
        if len(rows) != count:
            raise self._odd(f"{len(rows)} vectors for {count} texts")
        vectors = np.zeros((count, self._options.dim), np.float32)
        seen: set[int] = set()
        for place, row in enumerate(map(json_object, rows)):
            index = row.get("index", place)
            vector = self._vector(row.get("embedding"))
            if not isinstance(index, int) or not 0 <= index < count or index in seen:
                raise self._odd(f"the index {index!r}")
            seen.add(index)
            vectors[index] = vector
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)

    def _vector(self, value: object) -> NDArray[np.float64]:
        try:
            if isinstance(value, str):
                raw = np.frombuffer(base64.b64decode(value, validate=True), "<f4")
                vector = raw.astype(np.float64)
            else:
                vector = np.array(json_array(value), np.float64)
        except (ValueError, TypeError, binascii.Error) as error:
            raise self._odd("a vector that cannot be read") from error
        if vector.shape != (self._options.dim,):
            raise self._odd(f"vectors of {vector.size} numbers instead of {self._options.dim}")
        if not np.isfinite(vector).all():
            raise self._odd("numbers that are not finite")
        return vector

    def _odd(self, reason: str) -> EmbedderError:
        return EmbedderError(
            f"The embedding service {self._options.url} answered with {reason}.",
            hint="Check model and dim in search.embedder_options.",
        )


class _TryAgainError(Exception):
    """A temporary failure."""

    def __init__(self, reason: str, after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.after_s = after_s


def _pause_s(headers: Mapping[str, str]) -> float:
    try:
        return min(float(headers.get("retry-after", "0")), _LONGEST_PAUSE_S)
    except ValueError:
        return 0.0
