"""Habits of a project: tools that are used often, and tools of the same conversation.

Habits raise tools that a request does not mention but that usually belong to such work. They never
change the best hit. `Learning` fills them; for their benefit and the weights, see
`docs/learning.md`.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Sequence
from math import log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_CONVERSATIONS = 250
"""Most conversations in memory, the last ones; chosen."""
_USED = 5
"""Number of last used tools of each conversation that are compared with the next one; chosen."""
_TOGETHER_S = 600.0
"""Most seconds between two tools of a conversation that count as used together; chosen."""
_TOGETHER_LEAST = 2
"""Lowest number of joint uses of two tools for which they are reported; chosen."""
_TOGETHER_SHARE = 0.3
"""Lowest share of a tool's uses that must include the other one; chosen."""

_OFTEN = 0.4
"""Added to a tool that is used most often, if all tools of the log are used again and again."""
_TOGETHER = 0.4
"""Added to a tool that is always used together with the best hit."""
_SIBLING = 0.2
"""Added to other tools of the best hit's server, if conversations always stay on one server.
These three were chosen together with `_REPEATED_FROM` and `_SEEDS` on halves of mcpverse,
metatool_multi, stabletoolbench, bfcl_basic and bfcl_live; neighboring values gave the same."""
_REPEATED_FROM = 0.5
"""Share of uses of tools used in several conversations up to which frequency says nothing."""
_SEEDS = 3
"""Number of best hits whose companions are raised."""
_OFTEN_COUNT = 20
"""Number of conversations from which a tool counts as used most often; chosen."""
_PSEUDO = 5.0
"""Imaginary observations to the contrary, by which shares are shrunk; chosen."""
_MOST_OF_ONE = 5
"""Most conversations of one caller that count for a tool or pair; chosen."""
_MOST_CALLERS = 20
"""Most callers counted for a tool or pair; chosen."""
_PAIRS_OF_ONE = 20
"""Most pairs of one caller that count for how often conversations stay on a server; chosen."""
_CALLERS = 1_000
"""Most callers whose pairs are counted; chosen."""


class _Backers:
    """The callers and conversations behind a habit."""

    __slots__ = ("_by_caller", "conversations", "times")

    def __init__(self) -> None:
        self._by_caller: dict[str, set[str]] = {}
        self.conversations = 0
        """Number of conversations; each caller counts up to a limit."""
        self.times = 0
        """Number of all uses."""

    @property
    def callers(self) -> int:
        """Number of callers, up to a limit."""
        return len(self._by_caller)

    def add(self, caller: str, conversation: str) -> bool:
        """Count a use; return whether it is in a further conversation that counts."""
        self.times += 1
        known = self._by_caller.get(caller)
        if known is None:
            if len(self._by_caller) >= _MOST_CALLERS:
                return False
            known = self._by_caller[caller] = set()
        if conversation in known or len(known) >= _MOST_OF_ONE:
            return False
        known.add(conversation)
        self.conversations += 1
        return True


class _Conversation:
    """What a conversation used last."""

    __slots__ = ("has_several", "used")

    def __init__(self) -> None:
        self.used: deque[tuple[str, float]] = deque(maxlen=_USED)
        """Tools and times, newest first."""
        self.has_several = False
        """Whether it used more than one tool."""


class HabitLift(NamedTuple):
    """What habits added to the score of a tool."""

    added: float
    """The difference, above 0."""

    callers: int
    """Number of callers who used the tool."""


class HabitLifts(NamedTuple):
    """What habits would add to the scores of ranked tools, in their order."""

    by_several: NDArray[np.float64]
    """Added by habits of two or more callers."""

    by_one: NDArray[np.float64]
    """Added by habits of one caller."""


class ToolHabits:
    """The habits of a project. Belongs to one event loop."""

    def __init__(self) -> None:
        self._uses: dict[str, _Backers] = {}
        self._pairs: dict[str, dict[str, _Backers]] = {}
        self._last: OrderedDict[tuple[str, str], _Conversation] = OrderedDict()
        self._counted = 0
        """Uses of all tools, each once for a conversation."""
        self._repeated = 0
        """Those of tools used in several conversations."""
        self._n_conversations = 0
        """Number of conversations, and of those with several tools."""
        self._n_with_several = 0
        self._by_caller: dict[str, Counter[bool]] = {}
        """Pairs of each caller, by whether both tools are of one server."""
        self._n_pairs = 0.0
        """Pairs of all callers, and those on one server; each caller counts up to a limit."""
        self._n_siblings = 0.0

    def __len__(self) -> int:
        return len(self._uses)

    def add(self, key: str, at_s: float, *, caller: str, conversation: str) -> None:
        """Add a successful use of a tool.

        Args:
            key: The tool, `server:tool`.
            at_s: Time in seconds since 1970.
            caller: Who used it.
            conversation: Where it was used.
        """
        backers = self._uses.setdefault(key, _Backers())
        if backers.add(caller, conversation):
            self._counted += 1
            # The second conversation makes the first one a repetition too.
            self._repeated += {1: 0, 2: 2}.get(backers.conversations, 1)
        recent = self._last.get((caller, conversation))
        if recent is None:
            recent = self._last[caller, conversation] = _Conversation()
            self._n_conversations += 1
        if not recent.has_several and any(other != key for other, _ in recent.used):
            recent.has_several = True
            self._n_with_several += 1
        together = {other for other, then in recent.used if abs(at_s - then) <= _TOGETHER_S}
        for other in together - {key}:
            pair = self._pairs.setdefault(key, {}).get(other)
            if pair is None:
                pair = _Backers()
                self._pairs[key][other] = self._pairs.setdefault(other, {})[key] = pair
            if pair.add(caller, conversation):
                self._count_pair(caller, is_sibling=_server_of(key) == _server_of(other))
        recent.used.appendleft((key, at_s))
        self._last.move_to_end((caller, conversation))
        if len(self._last) > _CONVERSATIONS:
            self._last.popitem(last=False)

    def _count_pair(self, caller: str, *, is_sibling: bool) -> None:
        counts = self._by_caller.get(caller)
        if counts is None:
            if len(self._by_caller) >= _CALLERS:
                return
            counts = self._by_caller[caller] = Counter()
        for sign in (-1, 1):
            total = counts.total()
            counted = min(total, _PAIRS_OF_ONE)
            self._n_pairs += sign * counted
            self._n_siblings += sign * counted * counts[True] / max(1, total)
            if sign < 0:
                counts[is_sibling] += 1

    def n_pairs(self) -> int:
        """Return the number of pairs of tools that are used together."""
        return sum(
            pair.times >= _TOGETHER_LEAST
            for key, partners in self._pairs.items()
            for other, pair in partners.items()
            if key < other
        )

    def used_together(self, keys: Collection[str], limit: int) -> dict[str, list[str]]:
        """Return tools often used together with each of these, the most frequent first."""
        companions: dict[str, list[str]] = {}
        for key in keys:
            if key not in self._pairs:
                continue
            partners = self._pairs[key]
            least = max(_TOGETHER_LEAST, _TOGETHER_SHARE * self._uses[key].times)
            frequent = sorted(
                (other for other, pair in partners.items() if pair.times >= least),
                key=lambda other: (-partners[other].times, other),
            )
            if frequent:
                companions[key] = frequent[:limit]
        return companions

    def callers_of(self, key: str) -> int:
        """Return how many callers used a tool."""
        backers = self._uses.get(key)
        return backers.callers if backers is not None else 0

    def lifts(self, ranked: Sequence[str], scores: NDArray[np.float32]) -> HabitLifts:
        """Return what habits would add to the scores of ranked tools.

        Args:
            ranked: Keys of tools, best first.
            scores: Their scores, the first one above 0.
        """
        by_several, by_one = np.zeros(len(ranked)), np.zeros(len(ranked))
        repeated = self._repeated / (self._counted + _PSEUDO)
        often = _OFTEN * max(0.0, repeated - _REPEATED_FROM) / (1 - _REPEATED_FROM)
        for at, key in enumerate(ranked):
            uses = self._uses.get(key)
            if uses is not None:
                share = min(1.0, log1p(uses.conversations) / log1p(_OFTEN_COUNT))
                (by_several if uses.callers > 1 else by_one)[at] = often * share
        several = self._n_with_several / (self._n_conversations + _PSEUDO)
        best = scores[:_SEEDS].astype(np.float64) / float(scores[0])
        near = several * best**2 / (1 + np.arange(len(best)) / 5)
        self._add_companions(ranked, near, by_several, by_one)
        on_one_server = self._n_siblings / (self._n_pairs + _PSEUDO)
        if on_one_server:
            servers = [_server_of(key) for key in ranked]
            of_all = by_several if len(self._by_caller) > 1 else by_one
            for seed in range(len(near)):
                if servers[seed] not in servers[:seed]:
                    siblings = [at for at, name in enumerate(servers) if name == servers[seed]]
                    siblings.remove(seed)
                    of_all[siblings] += _SIBLING * on_one_server * near[seed]
        return HabitLifts(by_several, by_one)

    def _add_companions(
        self,
        ranked: Sequence[str],
        near: NDArray[np.float64],
        by_several: NDArray[np.float64],
        by_one: NDArray[np.float64],
    ) -> None:
        """Add what tools get that were used together with the best ones."""
        for at, key in enumerate(ranked):
            partners = self._pairs.get(key)
            if partners is None:
                continue
            of_several = of_any = 0.0
            for seed, nearness in enumerate(near.tolist()):
                pair = partners.get(ranked[seed])
                if pair is None:
                    continue
                # Shrunk by one imaginary use of the best tool alone.
                share = pair.conversations / (self._uses[ranked[seed]].conversations + 1)
                of_any = max(of_any, nearness * share)
                if pair.callers > 1:
                    of_several = max(of_several, nearness * share)
            by_several[at] += _TOGETHER * of_several
            by_one[at] += _TOGETHER * (of_any - of_several)


def _server_of(key: str) -> str:
    return key.partition(":")[0]
