"""Remember per conversation which intents were detected and whose rules were sent."""

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from toolgate.types import Caller

# Largest number of conversations that are remembered (chosen).
_MOST: Final = 10_000
# Half an hour (chosen).
_IDLE_S: Final = 30 * 60.0
"""Seconds of inactivity after which a conversation known only by its client's name is a new one."""

# Characters of a request that are remembered (chosen).
_REQUEST_CHARS: Final = 4_000
# Previous intents that are remembered (chosen).
_PREVIOUS: Final = 5


@dataclass(frozen=True, kw_only=True)
class ConversationState:
    """The state of a conversation."""

    given_intents: tuple[str, ...] = ()
    """Intents whose rules were last sent to the model."""

    given_rules: frozenset[tuple[str, int]] = frozenset()
    """Those intents, each with a hash of its rules, so that changed rules are sent again."""

    intents: tuple[str, ...] = ()
    """Intents of the last request; empty if it had no rules."""

    previous: tuple[str, ...] = ()
    """Intents of the requests so far, latest last, including those without rules."""

    request: str = ""
    """The beginning of the last request."""

    given_advice: frozenset[str] = frozenset()
    """Keys of advice already given on this topic, so that it is given once."""

    at_s: float = 0.0
    """When the conversation was last active, in seconds of the clock."""


class ConversationContext:
    """Remembers the state of named conversations."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start empty.

        Args:
            clock: Seconds since an arbitrary moment.
        """
        self._clock = clock
        self._talks: OrderedDict[tuple[str, str, str], ConversationState] = OrderedDict()

    def state(self, caller: Caller) -> ConversationState:
        """Return the state of the caller's conversation."""
        talk = self._talks.get(caller.thread) if caller.conversation else None
        if talk is None:
            return ConversationState()
        if caller.is_guess and self._clock() - talk.at_s > _IDLE_S:
            del self._talks[caller.thread]
            return ConversationState()
        return talk

    def record_request(
        self,
        caller: Caller,
        request: str,
        *,
        intent: str | None,
        intents: tuple[str, ...],
        rules: Collection[tuple[str, int]] = (),
    ) -> None:
        """Remember a request.

        Args:
            caller: The caller who sent it.
            request: The request.
            intent: Its detected intent; None if unknown.
            intents: The intents whose rules were sent for it.
            rules: These intents, each with a hash of its rules.
        """
        before = self.state(caller)
        previous = (*before.previous, *(() if intent is None else (intent,)))
        talk = ConversationState(
            given_intents=intents or before.given_intents,
            given_rules=frozenset(rules) if intents else before.given_rules,
            intents=intents,
            previous=previous[-_PREVIOUS:],
            request=request[:_REQUEST_CHARS],
            # Advice is given once per topic; with other intents it may be needed again.
            given_advice=before.given_advice
            if intents and intents == before.intents
            else frozenset(),
        )
        self._keep(caller, talk)

    def add_intents(self, caller: Caller, intents: tuple[str, ...]) -> None:
        """Remember that the rules of these intents were sent too."""
        talk = self.state(caller)
        both = tuple(dict.fromkeys((*talk.intents, *intents)))
        self._keep(caller, replace(talk, intents=both, given_intents=both))

    def record_advice(self, caller: Caller, advice: str) -> None:
        """Remember that advice was given."""
        talk = self.state(caller)
        self._keep(caller, replace(talk, given_advice=talk.given_advice | {advice}))

    def _keep(self, caller: Caller, talk: ConversationState) -> None:
        if not caller.conversation:
            return
        self._talks[caller.thread] = replace(talk, at_s=self._clock())
        self._talks.move_to_end(caller.thread)
        while len(self._talks) > _MOST:
            self._talks.popitem(last=False)
