"""A chat model selects among the best hits of another search, and says why.

As `selector = "llm"` it uses the hits of `optimization`, as `optimization = "llm"` those of its
own option `local`. Requests, and names and descriptions of the candidates, are sent to the
model. After any failure, the answer is the ranked list, and says so.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import anyio

from toolgate.base.validation import check_ranges
from toolgate.search import Hit, SearchableTool, SearchAnswer, SearchRequest, SearchStrategy
from toolgate.search.strategies._http_service import (
    SUSPENDED,
    CircuitBreaker,
    JsonService,
    ServiceOptions,
)
from toolgate.search.strategies._lifecycle import end, ready
from toolgate.search.strategies._llm_selector import ChatPicker, messages_for, picked
from toolgate.search.strategies._selected_hits import answered, within
from toolgate.search.strategies._service_error import ServiceError
from toolgate.types import Json, json_array, json_object

log = logging.getLogger(__name__)

_ANSWER_BYTES = 2**20
"""Most bytes of the model's answer that are read; chosen."""


@dataclass(frozen=True, kw_only=True)
class Options(ServiceOptions):
    """Table `[search.options.llm]`.

    The address is that of an OpenAI-compatible service, such as `http://127.0.0.1:11434/v1`, to
    which `/chat/completions` is added. As `selector`, it uses the hits of `optimization` and
    ignores `local`.
    """

    model: str = ""
    """Name of the model in the service; required."""

    key: str = field(default="", repr=False)
    """Bearer token; write `${env:NAME}` instead of the token itself."""

    candidates: int = 50
    """Number of best hits that the model gets; 1 to 100."""

    max_tokens: int = 1_000
    """Most tokens of its answer; 16 to 100,000."""

    json_mode: bool = True
    """Whether to request `response_format = json_object`; not all services support it."""

    def __post_init__(self) -> None:
        self.check("llm")
        check_ranges(self, {"candidates": (1, 100), "max_tokens": (16, 100_000)})


def build(
    options: Options,
    *,
    make_search: Callable[[str], SearchStrategy],
    base: SearchStrategy | None = None,
    picker: ChatPicker | None = None,
) -> "ModelSearch":
    """Create a search that selects among the hits of `base`; nothing is sent before a request."""
    return ModelSearch(options, base or make_search(options.local), picker or HttpPicker(options))


class HttpPicker:
    """A chat model behind `POST …/chat/completions`, as in OpenAI's API.

    https://platform.openai.com/docs/api-reference/chat
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._service = JsonService(
            f"{options.url.rstrip('/')}/chat/completions",
            token=options.key,
            timeout_s=options.timeout_s,
            max_bytes=_ANSWER_BYTES,
        )

    async def answer(self, messages: Sequence[Json]) -> str:
        """Return the text of the first choice."""
        body: Json = {
            "model": self._options.model,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": self._options.max_tokens,
        }
        if self._options.json_mode:
            body["response_format"] = {"type": "json_object"}
        choices = json_array(json_object(await self._service.post(body)).get("choices"))
        message = json_object(json_object(choices[0] if choices else None).get("message"))
        content: object = message.get("content")
        if not isinstance(content, str):
            raise ServiceError("an answer without text")
        return content

    async def aclose(self) -> None:
        """Close the connections."""
        await self._service.aclose()


class ModelSearch:
    """Ranks with another search, and lets a model select among its best hits.

    Exactly named tools stay first. The model can name only candidates.
    """

    def __init__(self, options: Options, base: SearchStrategy, picker: ChatPicker) -> None:
        self._options = options
        self._base = base
        self._picker = picker
        self._tools: dict[str, SearchableTool] = {}
        self._updating = anyio.Lock()
        self._breaker = CircuitBreaker(failures=options.failures, cooldown_s=options.cooldown_s)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the tools in the index, in the order of the mask."""
        return self._base.keys

    @property
    def inner(self) -> SearchStrategy:
        """The search that provides the candidates, which may have vectors."""
        return self._base

    @property
    def is_suspended(self) -> bool:
        """Whether the model failed several times, and has not answered since."""
        return self._breaker.is_open

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Set the tools of the index."""
        new_tools = tuple(tools)
        async with self._updating:
            # Candidates must always be known here, so both states are there during the change.
            self._tools = {**self._tools, **{tool.key: tool for tool in new_tools}}
            await self._base.update(new_tools)
            self._tools = {tool.key: tool for tool in new_tools}

    async def ready(self) -> None:
        """Wait until the other search has everything that it needs."""
        await ready(self._base)

    async def aclose(self) -> None:
        """Close the connections and the other search."""
        await end(self._picker)
        await end(self._base)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """Return the tools that the model selects, or the ranked list if it does not answer."""
        started = perf_counter()
        wide = replace(request, limit=max(request.limit, self._options.candidates), threshold=0.0)
        ranked = await self._base.search(wide)
        tools = self._tools
        candidates = [hit for hit in ranked.hits if hit.key in tools][: self._options.candidates]
        if not candidates or not any(query.strip() for query in request.queries):
            return _ranked(ranked, request)
        if not self._breaker.allows():
            return _fallen_back(ranked, request, SUSPENDED)
        try:
            with anyio.fail_after(self._options.timeout_s):
                text = await self._picker.answer(messages_for(request, candidates, tools))
            picks = picked(text, candidates)
        except Exception as error:  # noqa: BLE001 - a model of anybody; the ranking goes on
            self._breaker.failed()
            reason = self._reason_of(error)
            log.warning(
                "model picked no tools", extra={"reason": reason, "error": type(error).__name__}
            )
            duration_ms = (perf_counter() - started) * 1000
            return replace(_fallen_back(ranked, request, reason), duration_ms=duration_ms)
        self._breaker.succeeded()
        answer = self._answer(ranked, picks, request)
        return replace(answer, duration_ms=(perf_counter() - started) * 1000)

    def _reason_of(self, error: Exception) -> str:
        """Return why there is no answer, without texts that may contain secrets."""
        if isinstance(error, ServiceError):
            return str(error)
        if isinstance(error, TimeoutError):
            return f"no answer within {self._options.timeout_s:g} s"
        return "it failed; the log of the gateway says why"

    def _answer(
        self, ranked: SearchAnswer, picks: list[Hit], request: SearchRequest
    ) -> SearchAnswer:
        hits, below = answered(picks, ranked.hits, request)
        if not hits and not below:
            # The nearest tools are listed too, so that the answer is not empty.
            weak = [replace(hit, fields={**hit.fields, "weak": True}) for hit in ranked.hits]
            notice = (
                "The model finds that no tool fits: these are the nearest, all of them weak. "
                "Say it in other words, or name the kind of thing that is needed."
            )
            return _ranked(replace(ranked, hits=tuple(weak), notices=(notice,)), request)
        is_doubt = len(request.queries) == 1 and bool(ranked.hits[0].fields.get("weak"))
        # The ranking's notice that nothing fits is outdated once the model has selected.
        notices = () if is_doubt and not ranked.fallback else ranked.notices
        return replace(ranked, hits=hits, notices=(*notices, *below))


def _ranked(ranked: SearchAnswer, request: SearchRequest) -> SearchAnswer:
    """Return the ranked list within the limits of the request."""
    hits, below = within(ranked.hits, request)
    return replace(ranked, hits=hits, notices=(*ranked.notices, *below))


def _fallen_back(ranked: SearchAnswer, request: SearchRequest, reason: str) -> SearchAnswer:
    """Return the ranked list, marked as a fallback."""
    answer = _ranked(ranked, request)
    notice = f"The model did not choose ({reason}); this is the list as it was ranked."
    fallback = "; ".join(filter(None, (f"llm: {reason}", answer.fallback)))
    return replace(answer, notices=(notice, *answer.notices), fallback=fallback)


_: type[SearchStrategy] = ModelSearch
