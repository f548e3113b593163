"""The reranker `http`: any service that answers `POST …/rerank` like Cohere and Jina.

vLLM, llama.cpp's server and LiteLLM do so too. Questions and passages leave this machine.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import anyio

from toolgate.base.validation import check_ranges, check_url
from toolgate.errors import RerankerError
from toolgate.models.http_session import HttpSession
from toolgate.models.rerankers.base import CandidatePassage
from toolgate.types import json_array, json_object


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the reranker `http`."""

    url: str
    """URL of the service, to which `/rerank` is added."""

    model: str = ""
    """Name of the model at the service; empty: the service has only one."""

    key: str = ""
    """Bearer token; write `${env:RERANK_KEY}` and not the token itself."""

    longest: int = 8_000
    """Characters after which a passage is cut; 1 to 1,000,000."""

    timeout_s: float = 10.0
    """Seconds for a request; 0.1 to 600."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            OptionError: A value is out of range.
        """
        check_ranges(self, {"longest": (1, 1_000_000), "timeout_s": (0.1, 600)})
        check_url(self.url)


def build(options: Options) -> "HttpReranker":
    """Create the reranker; nothing is sent before the first question."""
    return HttpReranker(options)


class HttpReranker:
    """Scores from a service over HTTP."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session = HttpSession()

    async def scores(
        self, question: str, candidates: Sequence[CandidatePassage]
    ) -> Sequence[float]:
        """Return the scores that the service computes.

        Raises:
            RerankerError: The service did not answer, refused, or sent an invalid response.
        """
        if not candidates:
            return []
        texts = [candidate.full_text[: self._options.longest] for candidate in candidates]
        clean = [text.encode(errors="replace").decode() for text in (question, *texts)]
        body: dict[str, object] = {"query": clean[0], "documents": clean[1:], "top_n": len(texts)}
        if self._options.model:
            body["model"] = self._options.model
        return self._read(await self._post(body), len(texts))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    async def _post(self, body: dict[str, object]) -> object:
        options, session = self._options, self._session.open()
        headers = {"authorization": f"Bearer {options.key}"} if options.key else {}
        try:
            with anyio.fail_after(options.timeout_s):
                async with session.post(
                    f"{options.url.rstrip('/')}/rerank",
                    json=body,
                    headers=headers,
                    allow_redirects=False,
                ) as response:
                    if response.status != HTTPStatus.OK:
                        raise self._failed(f"refused with status {response.status}")
                    return await response.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise self._failed(f"failed: {str(error) or type(error).__name__}") from error
        except ValueError as error:
            raise self._failed("answered with no JSON") from error

    def _read(self, answer: object, count: int) -> list[float]:
        """Read `results` with `index` and `relevance_score`, in any order."""
        scores: dict[int, float] = {}
        for row in map(json_object, json_array(json_object(answer).get("results"))):
            index, score = row.get("index"), row.get("relevance_score")
            if not isinstance(index, int) or not 0 <= index < count or index in scores:
                raise self._failed(f"answered with the result {str(row)[:100]}")
            if isinstance(score, bool) or not isinstance(score, int | float):
                raise self._failed(f"answered with the result {str(row)[:100]}")
            scores[index] = float(score)
        if len(scores) != count:
            raise self._failed(f"answered with {len(scores)} results for {count} passages")
        return [scores[number] for number in range(count)]

    def _failed(self, reason: str) -> RerankerError:
        return RerankerError(
            f"The reranking service {self._options.url} {reason}.",
            allowed="The order of the search stays.",
            hint="Check url, model and key in documents.reranker_options.",
        )
