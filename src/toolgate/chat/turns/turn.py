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
from toolgate.settings import ChatSettings
from toolgate.store import StoredArtifact, StoredSpending
from toolgate.types import Caller, Json

__all__ = ["Turn", "TurnServices", "policy_by_pattern"]

_BEGIN_AT_ONCE = 4
"""Turns that find out at the same time what they are about: a hundred that begin together would
hold the loop, and with it every stream, for a hundred times as long as one."""


@dataclass(frozen=True, kw_only=True)
class TurnServices:
    """What turns use, of all of them."""

    gateway: Gateway
    """The verbs: the only way to tools."""

    models: ModelRegistry
    """The chat models."""

    prompts: Prompts
    """Texts for them."""

    settings: Callable[[], ChatSettings]
    """Table `[chat]` as it is now."""

    beginning: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(_BEGIN_AT_ONCE)
    )
    """Held while a turn finds out what it is about, which is work and no waiting."""


@dataclass
class Turn:
    """One turn."""

    services: TurnServices
    """What it uses."""

    request: TurnRequest
    """What was said."""

    caller: Caller
    """Who asks, with the conversation that this turn belongs to."""

    turn_id: str
    """Opaque; id of its run too."""

    choices: Choices
    """How it is answered."""

    budget: Budget
    """What it may spend."""

    emit: Callable[[Event], None]
    """Tells who listens; never waits."""

    history: tuple[Message, ...] = ()
    """Earlier turns, oldest first; without a thread what came before the last question."""

    system: str = ""
    """System messages of the client, which go behind ours."""

    offers: Offers = field(default_factory=lambda: Offers(by_name={}))
    """What the model may call."""

    thread_tools: list[str] = field(default_factory=list[str])
    """Keys that the thread has offered by now."""

    rules: str = ""
    """Rules for this request; they live this turn only."""

    context: str = ""
    """Result of a tool that was called before the model, for this turn only."""

    is_without_retrieval: bool = False
    """Whether looking documents up is not offered any more: nothing of use was found."""

    lookups: list[str] = field(default_factory=list[str])
    """Questions for which documents were looked up, as they were asked and searched, folded."""

    n_lookups: int = 0
    """How often documents were looked up."""

    is_repeating_lookups: bool = False
    """Whether the model asked last for nothing but what it had asked for already."""

    passages: dict[tuple[str, int], FoundPassage] = field(
        default_factory=dict[tuple[str, int], FoundPassage]
    )
    """Passages that the model was given, by collection and id, in the order of their numbers."""

    documents: dict[str, str] = field(default_factory=dict[str, str])
    """The same as quoted text, by the id of the call that asked for them."""

    vs_metadata: Json = field(default_factory=dict[str, Any])
    """What all lookups searched."""

    last_request: ChatRequest | None = None
    """What the model was asked last for an answer."""

    texts: list[str] = field(default_factory=list[str])
    """What the user was told, a text for each answer of the model that has one."""

    reasoning: list[str] = field(default_factory=list[str])
    """What the model thought aloud."""

    finish: str = ""
    """Why the model stopped last."""

    model: str = ""
    """Name of the model that answered last."""

    spending: list[StoredSpending] = field(default_factory=list[StoredSpending])
    """What each request cost."""

    artifacts: list[StoredArtifact] = field(default_factory=list[StoredArtifact])
    """What is kept beside the messages."""

    client_calls: list[Json] = field(default_factory=list[Json])
    """Calls that the client has to run."""

    waiting: list[Json] = field(default_factory=list[Json])
    """Calls that wait for a person: `call_id`, `tool`, `arguments`, `approval_id`, `expires_at`."""

    pending: list[PendingCall] = field(default_factory=list[PendingCall])
    """Calls of earlier turns that wait for a person."""

    late_results: list[Message] = field(default_factory=list[Message])
    """Results of those that were decided meanwhile."""

    used_tools: list[str] = field(default_factory=list[str])
    """Keys of the tools that ran, in order."""

    partial: Callable[[], Message | None] = lambda: None
    """What of the present answer has come; None while there is none."""

    flush: Callable[[Sequence[Message]], Awaitable[None]] | None = None
    """Keeps messages, before something is done that cannot be undone; None: nothing is kept."""

    transcript: list[Message] = field(default_factory=list[Message])
    """All messages of this turn so far, also when its engine is cut off."""

    notes: Json = field(default_factory=dict[str, Any])
    """Further members of the metadata of its answer."""

    @property
    def gateway(self) -> Gateway:
        """The verbs."""
        return self.services.gateway

    @property
    def settings(self) -> ChatSettings:
        """Table `[chat]`."""
        return self.services.settings()

    @property
    def helper(self) -> str:
        """Name of the model for everything but the answer."""
        models = self.services.models
        return models.name_of(self.settings.helper_model or self.choices.model or None)

    def note(self, message: Message, **notes: Any) -> Message:
        """A message of this turn."""
        return replace(message, notes={**message.notes, "turn": self.turn_id, **notes})

    def spent(self, purpose: Purpose, model: str, usage: TokenUsage) -> None:
        """Note what a request cost."""
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
        """A short text of the helper model, at temperature 0.

        Raises:
            ModelError: It gave none.
            SpentError: The turn may spend no more.
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
        """Tell that a request to the model is repeated, or goes to another one."""
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
        """What later requests have of the results of a tool, by the settings."""
        return policy_by_pattern(self.settings.results, key)

    def offer(self, name: str) -> Offer | None:
        """What is behind a name that the model calls.

        A tool that was not offered in this turn counts too, if the caller may use it: models know
        names from earlier turns and from what they searched.
        """
        offered = self.offers.by_name.get(name)
        if offered is not None or not self.offers.by_name:
            return offered
        entry = self.gateway.visible.by_exposed_name(self.caller, name)
        if entry is None or family_of(entry) not in {"", *self.choices.tools_enabled}:
            return None
        return offer_of(entry, self.settings.injected)


def policy_by_pattern(patterns: Mapping[str, str], key: str) -> Policy:
    """The policy of the first pattern that fits a key; `keep` without one."""
    for pattern, policy in patterns.items():
        expression = re.escape(pattern).replace(r"\*", ".*")
        if re.fullmatch(expression, key) and policy in {"stub", "drop_pair"}:
            return "stub" if policy == "stub" else "drop_pair"
    return "keep"
