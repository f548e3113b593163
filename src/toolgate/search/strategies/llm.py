"""A chat model picks from the best that another search finds, and says why.

As `selector = "llm"` it works on what `optimization` finds, as `optimization = "llm"` on its own
option `local`. Requests, and names and descriptions of the candidates, go to the model. Whatever
goes wrong there, the ranked list is the answer, and says so.
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
    ServiceError,
    ServiceOptions,
)
from toolgate.search.strategies._lifecycle import end, ready
from toolgate.search.strategies._llm_selector import ChatPicker, messages_for, picked
from toolgate.search.strategies._selection import answered, within
from toolgate.types import Json, json_array, json_object

__all__ = ["ModelSearch", "Options", "build"]

log = logging.getLogger(__name__)

_ANSWER_BYTES = 2**20
"""Bytes of the model's answer that are read; chosen."""


@dataclass(frozen=True, kw_only=True)
class Options(ServiceOptions):
    """Table `[search.options.llm]`.

    The address is that of an OpenAI-compatible service, such as `http://127.0.0.1:11434/v1`, to
    which `/chat/completions` is added. As `selector` it picks from what `optimization` finds, and
    `local` has no say.
    """

    model: str = ""
    """What the service calls the model; needed."""

    key: str = field(default="", repr=False)
    """Bearer token; write `${env:NAME}` and not the token itself."""

    candidates: int = 50
    """How many of the best the model sees; 1 to 100."""

    max_tokens: int = 1_000
    """Most tokens of its answer; 16 to 100,000."""

    json_mode: bool = True
    """Whether to ask the service for `response_format = json_object`; not all have it."""

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
    """A search that picks from those of `base`; nothing is sent before the first request."""
    return ModelSearch(options, base or make_search(options.local), picker or HttpPicker(options))


class HttpPicker:
    """A chat model behind `POST …/chat/completions`, as OpenAI's service has it.

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
        """The text of the first choice."""
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
    """Ranks with another search, and has a model pick from the best of it.

    Tools that are named exactly stay first. The model can name nothing but the candidates.
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
        """The search that it picks from, which keeps vectors where there are any."""
        return self._base

    @property
    def is_suspended(self) -> bool:
        """Whether the model failed several times, and has not answered since."""
        return self._breaker.is_open

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Make these the tools of the index."""
        new_tools = tuple(tools)
        async with self._updating:
            # A candidate must always be known here: both states are there while it changes.
            self._tools = {**self._tools, **{tool.key: tool for tool in new_tools}}
            await self._base.update(new_tools)
            self._tools = {tool.key: tool for tool in new_tools}

    async def ready(self) -> None:
        """Wait until the ranking has all that it needs."""
        await ready(self._base)

    async def aclose(self) -> None:
        """Close the connections, and end the ranking."""
        await end(self._picker)
        await end(self._base)

    async def search(self, request: SearchRequest) -> SearchAnswer:
        """The tools that the model picks, or the ranked list if it does not answer."""
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
        """Why nothing came, without a text that may hold secrets."""
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
            # Said with the nearest, so that nobody is left with nothing to look at.
            weak = [replace(hit, fields={**hit.fields, "weak": True}) for hit in ranked.hits]
            notice = (
                "The model finds that no tool fits: these are the nearest, all of them weak. "
                "Say it in other words, or name the kind of thing that is needed."
            )
            return _ranked(replace(ranked, hits=tuple(weak), notices=(notice,)), request)
        is_doubt = len(request.queries) == 1 and bool(ranked.hits[0].fields.get("weak"))
        # That nothing fits well is what the ranking thought, before the model chose.
        notices = () if is_doubt and not ranked.fallback else ranked.notices
        return replace(ranked, hits=hits, notices=(*notices, *below))


def _ranked(ranked: SearchAnswer, request: SearchRequest) -> SearchAnswer:
    """The ranked list, as far as it was asked for."""
    hits, below = within(ranked.hits, request)
    return replace(ranked, hits=hits, notices=(*ranked.notices, *below))


def _fallen_back(ranked: SearchAnswer, request: SearchRequest, reason: str) -> SearchAnswer:
    """The ranked list, marked as what it is."""
    answer = _ranked(ranked, request)
    notice = f"The model did not choose ({reason}); this is the list as it was ranked."
    fallback = "; ".join(filter(None, (f"llm: {reason}", answer.fallback)))
    return replace(answer, notices=(notice, *answer.notices), fallback=fallback)


_: type[SearchStrategy] = ModelSearch
