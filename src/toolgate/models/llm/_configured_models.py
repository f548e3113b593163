"""The configured models: names, retries, fallbacks, time limits, prices."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Protocol, cast

import anyio

from toolgate.base import json_text
from toolgate.base.lazy_loading import run_alone
from toolgate.base.token_estimate import estimate_tokens
from toolgate.base.tracing import observe
from toolgate.errors import (
    ContextTooLongError,
    ModelError,
    ModelRateError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    ToolgateError,
    UnknownModelError,
)
from toolgate.models.llm._plain_messages import flattened
from toolgate.models.llm.base import (
    ChatModel,
    ChatRequest,
    Delta,
    Finish,
    Message,
    MessageAssembler,
    ModelReply,
    Purpose,
    TokenUsage,
    message_json,
)
from toolgate.settings import ModelTable
from toolgate.types import PluginSpec

log = logging.getLogger(__name__)

_TIMEOUTS_S: Mapping[Purpose, float] = {
    "answer": 600.0,
    "rephrase": 60.0,
    "grade": 30.0,
    "classify": 15.0,
    "select": 30.0,
    "summary": 120.0,
    "evaluate": 120.0,
}

_FIRST_PAUSE_S = 0.5
"""Seconds before the first retry, doubled with each further one (chosen)."""


class MakeModel(Protocol):
    """Creates the adapter that a table names."""

    def __call__(self, spec: PluginSpec) -> ChatModel:
        """Create the adapter."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelAttempt:
    """A failed request to a model, and what is tried next."""

    model: str
    """Name of the model that failed."""

    error: ModelError
    """The reason."""

    next_model: str
    """Name of the model that is asked next."""

    pause_s: float
    """Seconds until then."""


class ModelRegistry:
    """All configured models, each created on first use."""

    def __init__(
        self,
        tables: Mapping[str, ModelTable],
        *,
        make: MakeModel,
        default: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._make = make
        self._clock = clock
        self._built: dict[str, ChatModel] = {}
        self._building = anyio.Lock()
        self._tables = dict(tables)
        self._default = default

    @property
    def tables(self) -> Mapping[str, ModelTable]:
        """The tables of the models, by name."""
        return self._tables

    @property
    def default(self) -> str:
        """Name of the default model; empty if no model is configured."""
        return self._default or next(iter(self._tables), "")

    @property
    def usual(self) -> ChatModel | None:
        """The default model, with retries and fallbacks; None if no model is configured."""
        return _DefaultModel(self) if self._tables else None

    def name_of(self, asked: str | None) -> str:
        """Return the name of the model with this name or alias; None: the default.

        Raises:
            UnknownModelError: No such model exists.
        """
        if not self._tables:
            raise UnknownModelError(
                "No chat model is configured.",
                hint="Add a table [models.NAME]; see docs/chat.md.",
            )
        requested = asked or self.default
        if requested in self._tables:
            return requested
        for name, table in self._tables.items():
            if requested in table.aliases:
                return name
        raise UnknownModelError(
            f"There is no model {requested[:80]!r}.",
            allowed=f"Models: {', '.join(self._tables)}.",
            hint="Choose one of these, or add a table [models.NAME] for it.",
        )

    async def reload(self, tables: Mapping[str, ModelTable], default: str) -> None:
        """Replace the tables; changed models are created again on their next use."""
        gone = [name for name, table in self._tables.items() if tables.get(name) != table]
        self._tables, self._default = dict(tables), default
        for name in gone:
            model = self._built.pop(name, None)
            if model is not None:
                await model.aclose()

    async def aclose(self) -> None:
        """Close all adapters."""
        built, self._built = self._built, {}
        for model in built.values():
            await model.aclose()

    def ask(
        self,
        name: str,
        request: ChatRequest,
        *,
        notice: Callable[[ModelAttempt], None] | None = None,
    ) -> "RequestAttempt":
        """Prepare a request to a model; it is sent when its pieces are read."""
        return RequestAttempt(self, name, request, notice or _ignore)

    async def complete(self, name: str, request: ChatRequest) -> ModelReply:
        """Return the whole answer of a model.

        Raises:
            ModelError: See `ChatModel.stream`; retries and fallbacks have failed, too.
        """
        asking = self.ask(name, request)
        with observe("model", model=name, purpose=request.purpose):
            async with aclosing(asking.deltas()) as deltas:
                async for _ in deltas:
                    pass
        return replace(asking.gathering.reply, usage=asking.usage)

    def chain(self, name: str) -> list[str]:
        """Return the model and its fallbacks, without duplicates."""
        names = [name]
        for fallback in self._tables[name].fallbacks:
            other = self.name_of(fallback)
            if other not in names:
                names.append(other)
        return names

    async def adapter(self, name: str) -> ChatModel:
        """Return a model's adapter, created once in a thread, since its library may be large.

        Raises:
            ConfigError: Its table is invalid.
        """
        if name in self._built:
            return self._built[name]
        async with self._building:
            if name not in self._built:
                spec = self._spec(name)
                self._built[name] = await run_alone(lambda: self._make(spec))
            return self._built[name]

    async def warm_up(self) -> None:
        """Load what the default model needs, before the first request waits for it."""
        try:
            await self.adapter(self.name_of(None))
        except ToolgateError as error:
            log.warning("the chat model cannot be used", extra={"reason": str(error)})

    def _spec(self, name: str) -> PluginSpec:
        table = self._tables[name]
        options: dict[str, object] = {**table.options, "model": table.model or name}
        if table.url:
            options["url"] = table.url
        if table.key:
            options["key"] = table.key
        return PluginSpec(
            name=table.provider,
            setting=f"models.{name}.provider",
            options=options,
            options_at=f"models.{name}.options",
        )

    def priced(self, name: str, usage: TokenUsage) -> TokenUsage:
        """Return the usage with its cost."""
        table = self._tables.get(name)
        if table is None:
            return usage
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        price_cached = table.price_input if table.price_cached is None else table.price_cached
        cost = (
            (usage.prompt_tokens - cached) * table.price_input
            + cached * price_cached
            + usage.completion_tokens * table.price_output
        ) / 1_000_000
        return replace(usage, cost=cost)

    def current_time(self) -> float:
        """Return the seconds of the clock."""
        return self._clock()


class _DefaultModel:
    """The model that is the default when a request is made."""

    def __init__(self, models: ModelRegistry) -> None:
        self._models = models

    @property
    def identity(self) -> str:
        return self._models.default

    def stream(self, request: ChatRequest) -> AsyncIterator[Delta]:
        return self._models.ask(self._models.name_of(None), request).deltas()

    async def aclose(self) -> None:
        """Do nothing: the registry closes its models."""


class RequestAttempt:
    """One request, with its retries and fallbacks."""

    def __init__(
        self,
        models: ModelRegistry,
        name: str,
        request: ChatRequest,
        notice: Callable[[ModelAttempt], None],
    ) -> None:
        self._models = models
        self._request = request
        self._notice = notice
        self.model = name
        """Name of the model that answers, which may be a fallback."""
        self.gathering = MessageAssembler()
        """The answer so far."""
        self.asked = 0
        """Number of requests sent."""

    @property
    def usage(self) -> TokenUsage:
        """Usage that the service reported, else an estimate from the answer so far."""
        usage = self.gathering.usage
        if usage is None:
            if not self.asked:
                return TokenUsage()
            message = self.gathering.message
            calls = "".join(call.name + call.arguments for call in message.calls)
            usage = TokenUsage(
                prompt_tokens=estimate_request(self._request.messages, self._request.tools),
                completion_tokens=estimate_tokens(message.text + calls),
                is_estimate=True,
            )
        return self._models.priced(self.model, usage)

    async def deltas(self) -> AsyncGenerator[Delta]:
        """Yield the pieces of the answer; retries and fallbacks happen before the first one.

        Raises:
            ModelError: See `ChatModel.stream`; retries and fallbacks have failed, too.
        """
        models, began = self._models, self._models.current_time()
        chain = models.chain(self.model)
        tries_left, paused_s = models.tables[self.model].retries, 0.0
        while True:
            try:
                async with aclosing(self._once(began)) as pieces:
                    async for delta in pieces:
                        self.gathering.add(delta)
                        yield delta
            except ModelError as error:
                if self.gathering.has_begun or not _may_pass(error):
                    raise
                table = models.tables[self.model]
                pause_s = _pause_s(error, table.retries - tries_left)
                if tries_left and paused_s + pause_s <= table.retry_within_s:
                    tries_left -= 1
                    paused_s += pause_s
                    following = self.model
                else:
                    position = chain.index(self.model) + 1
                    if position >= len(chain):
                        raise
                    following, pause_s = chain[position], 0.0
                    tries_left, paused_s = models.tables[following].retries, 0.0
                self._say(error, following, pause_s)
                self.model = following
                await anyio.sleep(pause_s)
            else:
                return

    def _say(self, error: ModelError, following: str, pause_s: float) -> None:
        log.warning(
            "model asked again" if following == self.model else "model fell back",
            extra={
                "model": self.model,
                "next": following,
                "code": error.code,
                "pause_s": round(pause_s, 2),
                "reason": error.failed,
            },
        )
        self._notice(
            ModelAttempt(model=self.model, error=error, next_model=following, pause_s=pause_s)
        )

    async def _once(self, began: float) -> AsyncGenerator[Delta]:
        """Send one request, within its time limits."""
        models, table = self._models, self._models.tables[self.model]
        adapter = await models.adapter(self.model)
        purpose = self._request.purpose
        limit_s = float(table.timeouts_s.get(purpose, _TIMEOUTS_S[purpose]))
        request = _as_understood(self._request, table, self.model)
        self.asked += 1
        who = adapter.identity
        stream = cast("AsyncGenerator[Delta]", adapter.stream(request))
        wait_s, has_finished = table.first_token_s, False
        async with aclosing(stream) as pieces:
            while True:
                left_s = limit_s - (models.current_time() - began)
                delta = await _next(pieces, min(wait_s, left_s), who)
                if delta is None:
                    break
                has_finished = has_finished or isinstance(delta, Finish)
                wait_s = table.silence_s
                yield delta
        if not has_finished and not self.gathering.has_begun:
            raise ModelUnavailableError(f"The model {who} answered nothing.")


async def _next(pieces: AsyncIterator[Delta], within_s: float, who: str) -> Delta | None:
    try:
        async with asyncio.timeout(max(0.001, within_s)):
            return await anext(pieces, None)
    except TimeoutError as error:
        raise ModelTimeoutError(
            f"The model {who} said nothing for {within_s:.1f} s.",
            hint="Set first_token_s, silence_s or timeouts_s under [models.NAME].",
        ) from error


_ESTIMATE_ERRS = 1.1
"""A request is refused if its estimated tokens exceed the limit by this factor (chosen)."""


def _may_pass(error: ModelError) -> bool:
    """Whether a retry or another model may succeed."""
    return not isinstance(error, ModelRequestError | ContextTooLongError)


def _pause_s(error: ModelError, before: int) -> float:
    """Return the seconds before a retry: doubled each time, or as the service says."""
    if not error.retryable:
        return float("inf")  # a wrong key stays wrong: use the fallback
    wait_s = error.wait_s if isinstance(error, ModelRateError) else 0.0
    return max(wait_s, _FIRST_PAUSE_S * 2**before) if wait_s or before else _FIRST_PAUSE_S


def _as_understood(request: ChatRequest, table: ModelTable, name: str) -> ChatRequest:
    """Return the request in a form that its model supports.

    Raises:
        ContextTooLongError: It exceeds the context of the model by more than the estimate may err.
        ModelRequestError: It contains something that the model does not support.
    """
    n_tokens = _tokens_if_long(request, table.context_tokens)
    if n_tokens > table.context_tokens * _ESTIMATE_ERRS:
        raise ContextTooLongError(
            f"The conversation is too long for the model {name!r}: about {n_tokens:,} tokens.",
            allowed=f"Allowed: {table.context_tokens:,} (context_tokens).",
            hint="Start a new thread, or send fewer or shorter messages.",
        )
    if not table.images and any(_has_image(message) for message in request.messages):
        raise ModelRequestError(
            f"The model {name!r} cannot see images.",
            hint="Send only text, or use another model.",
        )
    if table.tool_messages:
        return request
    return replace(request, messages=flattened(request.messages))


def _tokens_if_long(request: ChatRequest, limit: int) -> int:
    """Estimate the tokens of a request; 0 if even one token per character is within the limit."""
    n_chars = sum(
        len(message.text) + sum(len(call.arguments) for call in message.calls)
        for message in request.messages
    )
    return estimate_request(request.messages, request.tools) if n_chars > limit else 0


def _has_image(message: Message) -> bool:
    return not isinstance(message.content, str) and any(
        part.get("type") in {"image_url", "input_image", "image"} for part in message.content
    )


def estimate_request(messages: Sequence[Message], tools: Sequence[Any]) -> int:
    """Estimate the tokens of a request."""
    sent = sum(estimate_tokens(json_text.dumps(message_json(message))) for message in messages)
    return sent + (estimate_tokens(json_text.dumps(list(tools))) if tools else 0)


def _ignore(attempt: ModelAttempt) -> None:
    del attempt
