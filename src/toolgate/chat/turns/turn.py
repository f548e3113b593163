"""The state of one turn while it runs, shared by its steps."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from toolgate.chat.base import Choices, Event, Policy, TurnRequest
from toolgate.chat.turns.budget import Budget
from toolgate.chat.turns.offered_tools import Offer, Offers, family_of, offer_of
from toolgate.chat.turns.pending_calls import PendingCall
from toolgate.documents import FoundPassage
from toolgate.gateway.gateway import Gateway
from toolgate.models.llm import (
    ChatRequest,
    Message,
    ModelAttempt,
    ModelRegistry,
    ModelReply,
    Purpose,
    TokenUsage,
)
from toolgate.prompts import Prompts
from toolgate.settings import ChatSettings, CurrentSettings
from toolgate.store import StoredArtifact, StoredSpending
from toolgate.types import Caller, Json

_BEGIN_AT_ONCE = 4
"""Turns that analyze their questions at the same time: a hundred of them would block the event
loop, and with it every stream, for a hundred times as long as one."""


@dataclass(frozen=True, kw_only=True)
class TurnServices:
    """Services that all turns share."""

    gateway: Gateway
    """The gateway: the only way to call tools."""

    models: ModelRegistry
    """The chat models."""

    prompts: Prompts
    """Texts for the models."""

    settings: CurrentSettings
    """The current settings."""

    beginning: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(_BEGIN_AT_ONCE)
    )
    """Held while a turn analyzes its question, which is computing, not waiting."""


@dataclass
class Turn:
    """One turn."""

    services: TurnServices
    """Shared services."""

    request: TurnRequest
    """The request."""

    caller: Caller
    """The caller, with the conversation that this turn belongs to."""

    turn_id: str
    """An opaque id, also that of its run."""

    choices: Choices
    """Its settings."""

    budget: Budget
    """Its budget."""

    emit: Callable[[Event], None]
    """Sends events to listeners; never waits."""

    history: tuple[Message, ...] = ()
    """Earlier turns, oldest first; without a thread, the messages before the last question."""

    system: str = ""
    """System messages of the client, which follow ours."""

    offers: Offers = field(default_factory=lambda: Offers(by_name={}))
    """Tools that the model may call."""

    thread_tools: list[str] = field(default_factory=list[str])
    """Keys of tools that the thread has offered so far."""

    tool_turns: dict[str, str] = field(default_factory=dict[str, str])
    """The turn in which the thread first offered a tool, by its key, if there were turns before
    it."""

    rules: str = ""
    """Rules for this request, only in this turn."""

    context: str = ""
    """Result of a tool that was called before the model, only in this turn."""

    is_without_retrieval: bool = False
    """Whether document search is no longer offered, because it found nothing useful."""

    lookups: list[str] = field(default_factory=list[str])
    """Questions for document searches, both original and rephrased, case-folded."""

    n_lookups: int = 0
    """Number of document searches."""

    is_repeating_lookups: bool = False
    """Whether the last answer of the model only repeated earlier document searches."""

    passages: dict[tuple[str, int], FoundPassage] = field(
        default_factory=dict[tuple[str, int], FoundPassage]
    )
    """Passages that the model was given, by collection and id, in the order of their numbers."""

    documents: dict[str, str] = field(default_factory=dict[str, str])
    """The same as quoted text, by the id of the call that requested them."""

    vs_metadata: Json = field(default_factory=dict[str, Any])
    """Metadata of all document searches."""

    last_request: ChatRequest | None = None
    """The last request for an answer."""

    texts: list[str] = field(default_factory=list[str])
    """Texts for the user, one for each answer of the model that has one."""

    reasoning: list[str] = field(default_factory=list[str])
    """The model's visible reasoning."""

    finish: str = ""
    """Why the model last stopped."""

    model: str = ""
    """Name of the model that last answered."""

    spending: list[StoredSpending] = field(default_factory=list[StoredSpending])
    """Costs of each request."""

    artifacts: list[StoredArtifact] = field(default_factory=list[StoredArtifact])
    """Data to store with the messages."""

    client_calls: list[Json] = field(default_factory=list[Json])
    """Calls that the client must run."""

    waiting: list[Json] = field(default_factory=list[Json])
    """Calls that wait for approval: `call_id`, `tool`, `arguments`, `approval_id`, `expires_at`."""

    pending: list[PendingCall] = field(default_factory=list[PendingCall])
    """Calls of earlier turns that wait for approval."""

    late_results: list[Message] = field(default_factory=list[Message])
    """Results of those that were decided since."""

    used_tools: list[str] = field(default_factory=list[str])
    """Keys of the tools that ran, in order."""

    partial: Callable[[], Message | None] = lambda: None
    """The current answer so far; None if there is none."""

    flush: Callable[[Sequence[Message]], Awaitable[None]] | None = None
    """Saves messages before a call that may change something; None: nothing is saved."""

    transcript: list[Message] = field(default_factory=list[Message])
    """All messages of this turn so far, even if its engine is cancelled."""

    notes: Json = field(default_factory=dict[str, Any])
    """Further metadata of its answer."""

    @property
    def gateway(self) -> Gateway:
        """The gateway."""
        return self.services.gateway

    @property
    def settings(self) -> ChatSettings:
        """Table `[chat]`."""
        return self.services.settings.current.chat

    @property
    def helper(self) -> str:
        """Name of the model for everything except the answer."""
        models = self.services.models
        return models.name_of(self.settings.helper_model or self.choices.model or None)

    def note(self, message: Message, **notes: Any) -> Message:
        """Mark a message as one of this turn."""
        return replace(message, notes={**message.notes, "turn": self.turn_id, **notes})

    def spent(self, purpose: Purpose, model: str, usage: TokenUsage) -> None:
        """Add the usage of a request."""
        self.budget.spend(usage)
        self.spending.append(
            StoredSpending(
                turn_id=self.turn_id,
                purpose=purpose,
                model=model,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                cost=usage.cost,
                is_estimate=usage.is_estimate,
            )
        )

    async def ask(self, prompt: str, purpose: Purpose, max_tokens: int, *, system: str = "") -> str:
        """Return a short answer of the helper model, at temperature 0.

        Raises:
            ModelError: There is none.
            BudgetExceededError: The budget of the turn is exhausted.
        """
        self.budget.check()
        messages = [Message(role="user", content=prompt)]
        if system:
            messages.insert(0, Message(role="system", content=system))
        request = ChatRequest(
            messages=tuple(messages),
            parameters={"temperature": 0, "max_tokens": max_tokens},
            purpose=purpose,
        )
        helper = self.helper
        reply: ModelReply = await self.services.models.complete(helper, request)
        self.spent(purpose, helper, reply.usage)
        return reply.message.text

    def retried(self, attempt: ModelAttempt) -> None:
        """Report a retry of a model request, or the switch to another model."""
        self.emit(
            {
                "retry": {
                    "model": attempt.model,
                    "next": attempt.next_model,
                    "reason": attempt.error.code,
                    "pause_s": round(attempt.pause_s, 2),
                }
            }
        )

    def policy_of(self, key: str) -> Policy:
        """Return the configured policy for the results of a tool."""
        return policy_by_pattern(self.settings.results, key)

    def offer(self, name: str) -> Offer | None:
        """Return the tool that the model calls by a name.

        A tool that was not offered in this turn counts, too, if the caller may use it: models
        know names from earlier turns and from their own searches.
        """
        offered = self.offers.by_name.get(name)
        if offered is not None or not self.offers.by_name:
            return offered
        entry = self.gateway.visible.by_exposed_name(self.caller, name)
        if entry is None or family_of(entry) not in {"", *self.choices.tools_enabled}:
            return None
        return offer_of(entry, self.settings.injected)


def policy_by_pattern(patterns: Mapping[str, str], key: str) -> Policy:
    """Return the policy of the first pattern that matches a key; `keep` if none does."""
    for pattern, policy in patterns.items():
        expression = re.escape(pattern).replace(r"\*", ".*")
        if re.fullmatch(expression, key) and policy in {"stub", "drop_pair"}:
            return "stub" if policy == "stub" else "drop_pair"
    return "keep"
