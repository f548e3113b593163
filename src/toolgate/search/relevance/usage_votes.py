"""Votes of earlier requests: the most similar ones vote for the tools that worked.

A gate limits the votes: a log says nothing about a request unlike all of its entries, so without
repeated requests the ranking stays the same. This module has only values and computations;
`Learning` fills them. For the benefit of the gate and the weights, see `docs/learning.md`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolgate.base.validation import check_ranges, unfit
from toolgate.search.relevance.tool_habits import HabitLift, ToolHabits

_BLOCK = 5
"""Size of a block of results in which some are reserved for hits found without the log; chosen."""

_DECIMALS = 5
"""Significant decimals of a score: further ones depend on the order of a sum."""
_TOLD = 0.02
"""Smallest vote that a hit mentions; chosen."""

_SURE = 0.9
"""Largest relevance that earlier usage alone can give, in [0, 1); chosen."""
_UNPROVEN = 0.5
"""The same limit until `_AGREEING` callers agree; chosen."""
_AGREEING = 3
"""Number of callers that must agree before usage makes a tool look certain; chosen."""
_MAX_SUPPORTERS = 16
"""Most conversations stored per tool and request; more would add nothing; chosen."""
_COMPARED_AT_ONCE = 64
"""Number of tools compared with all others at a time; chosen: 5 MB among 10,000."""
_NEXT_BELOW = 2 * 10.0**-_DECIMALS
"""A difference between two scores that survives rounding."""


@dataclass(frozen=True, kw_only=True)
class UsageWeights:
    """Weights of earlier usage. Table `[search.options.hybrid.usage]`."""

    weight: float = 0.5
    """Added to the score of the tool with most votes, at full trust; 0 (learn nothing) to 1."""

    nearest: int = 15
    """Most logged requests that vote; 1 to 200."""

    power: float = 4.0
    """Power of the cosine with which a logged request votes; 0 to 16."""

    least_cosine: float = 0.3
    """Lowest cosine with which a logged request votes; 0 to 1."""

    trust_from: float = 0.5
    """Cosine of the nearest logged request up to which the log is ignored; 0 to 1."""

    trust_full: float = 0.85
    """Cosine of the nearest logged request from which the log has full weight; 0 to 1."""

    explore: float = 0.4
    """Share of each five results for the best hits without the log, so that new tools are seen;
    0 to 1."""

    recent_weight: float = 0.03
    """Added to tools of the servers that the conversation just used; 0 to 0.5."""

    habit_weight: float = 1.0
    """Weight of what is used often and together; 0 (off) to 1."""

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "weight": (0, 1),
            "nearest": (1, 200),
            "power": (0, 16),
            "least_cosine": (0, 1),
            "trust_from": (0, 1),
            "trust_full": (0, 1),
            "explore": (0, 1),
            "recent_weight": (0, 0.5),
            "habit_weight": (0, 1),
        }
        check_ranges(self, ranges)
        if self.trust_full <= self.trust_from:
            allowed = f"more than trust_from ({self.trust_from:g})"
            raise unfit("trust_full", self.trust_full, allowed)


class Support(NamedTuple):
    """Who used a tool for similar requests."""

    callers: int = 0
    """Number of people or programs."""

    conversations: int = 0
    """Number of conversations."""

    @property
    def is_proven(self) -> bool:
        """Whether enough callers agree."""
        return self.callers >= _AGREEING


@dataclass(frozen=True)
class UsageVotes:
    """Votes of the log for one request."""

    trust: float = 0.0
    """Weight of the votes, in [0, 1]."""

    shares: Mapping[str, float] = field(default_factory=dict[str, float])
    """By tool key, in [-1, 1]; nearly 1 for most votes, negative for tools marked wrong."""

    support: Mapping[str, Support] = field(default_factory=dict[str, Support])
    """Who used each tool, by tool key."""


class _ToolWorth(NamedTuple):
    """The worth of a tool at a time, and the supporting callers and conversations."""

    value: float
    at_s: float
    supporters: frozenset[tuple[str, str]] = frozenset()


class UsageHistory:
    """The logged requests of one project, as vectors of one model, with the worth of their tools.

    Belongs to one event loop; a vote in another thread sees a previous state.
    """

    def __init__(self, dim: int, *, half_life_s: float, max_requests: int = 4_000) -> None:
        self._rows = np.zeros((64, dim), np.float32)
        self._size = 0
        self._slots: dict[bytes, int] = {}
        self._worths: list[dict[str, _ToolWorth]] = []
        self._half_life_s = half_life_s
        self._max_requests = max_requests

    def __len__(self) -> int:
        return self._size

    def requests(self) -> Collection[bytes]:
        """Return the vectors of the logged requests."""
        return self._slots.keys()

    def add(
        self,
        vector: bytes,
        key: str,
        signal: float,
        at_s: float,
        *,
        caller: str = "",
        conversation: str = "",
    ) -> None:
        """Add the outcome of a tool for a request.

        Args:
            vector: Vector of the request, float16, little-endian.
            key: The tool.
            signal: 1 worked, 2 marked right.
            at_s: Time in seconds of any clock that all calls share.
            caller: Who used it.
            conversation: Where it was used.
        """
        slot = self._slots.get(vector)
        if slot is None:
            row = np.frombuffer(vector, "<f2").astype(np.float32)
            length = float(np.linalg.norm(row))
            # A vector of another model, or one that half precision flattened or overflowed.
            if len(row) != self._rows.shape[1] or not 0.1 < length < np.inf:
                return
            # Removal copies all rows, so it waits until there are a quarter too many; chosen.
            if self._size >= self._max_requests + self._max_requests // 4:
                self._forget()
            if self._size == len(self._rows):
                # Doubling keeps the cost of adding constant on average.
                grown = np.zeros((2 * self._size, len(row)), np.float32)
                grown[: self._size] = self._rows
                self._rows = grown
            slot = self._size
            self._rows[slot] = row / length
            self._worths.append({})
            self._slots[vector] = slot
            self._size += 1
        old = self._worths[slot].get(key, _ToolWorth(0.0, at_s))
        last = max(old.at_s, at_s)
        value = self._faded(old, last) + self._faded(_ToolWorth(signal, at_s), last)
        # A new dict: a vote running in another thread continues with the previous one.
        supporters = old.supporters
        if signal > 0 and len(supporters) < _MAX_SUPPORTERS:
            supporters |= {(caller, conversation)}
        self._worths[slot] = {**self._worths[slot], key: _ToolWorth(value, last, supporters)}

    def votes(self, vector: NDArray[np.float32], weights: UsageWeights, now_s: float) -> UsageVotes:
        """Return the votes of the nearest logged requests; deterministic for a log and a time."""
        size = self._size
        if not size or self._rows.shape[1] != len(vector):
            return UsageVotes()
        # Nearest neighbors, weighted by a power of the cosine: one similar request outvotes several
        # that are only related.
        cosines = np.round(self._rows[:size] @ vector, _DECIMALS)
        near = np.flatnonzero(cosines > weights.least_cosine)
        if not len(near):
            return UsageVotes()
        if len(near) > weights.nearest:
            # Partitioning is cheaper than sorting everything. Ties at the boundary stay until the
            # stable sort, which removes the later ones.
            cut = np.partition(cosines[near], -weights.nearest)[-weights.nearest]
            near = near[cosines[near] >= cut]
        near = near[np.argsort(-cosines[near], kind="stable")][: weights.nearest]
        votes: dict[str, float] = {}
        worth: dict[str, float] = {}
        supporters: dict[str, frozenset[tuple[str, str]]] = {}
        best = float(cosines[near[0]])
        slots: list[int] = near.tolist()
        for at in slots:
            vote = float(cosines[at]) ** weights.power
            for key, tool_worth in self._worths[at].items():
                # One request has one vote, however often its tool was marked.
                value = max(-1.0, min(1.0, self._faded(tool_worth, now_s)))
                votes[key] = votes.get(key, 0.0) + vote * value
                worth[key] = max(worth.get(key, 0.0), abs(value))
                if cosines[at] >= weights.trust_from:
                    supporters[key] = supporters.get(key, frozenset()) | tool_worth.supporters
        strongest = max((abs(vote) for vote in votes.values()), default=0.0)
        if strongest <= 0:
            return UsageVotes()
        # Linear between both thresholds, so that there is no sudden jump.
        gate = (best - weights.trust_from) / (weights.trust_full - weights.trust_from)
        # Shares are relative to the strongest vote, and multiplied by the worth, so that a tool
        # whose usage has faded does not look certain.
        return UsageVotes(
            trust=min(1.0, max(0.0, gate)),
            shares={
                key: vote / strongest * worth[key] * (_shrunk(len(supporters.get(key, ()))))
                if vote > 0
                else vote / strongest * worth[key]
                for key, vote in votes.items()
                if vote
            },
            support={
                key: Support(len({caller for caller, _ in who}), len(who))
                for key, who in supporters.items()
            },
        )

    def _faded(self, worth: "_ToolWorth", now_s: float) -> float:
        # Exponential decay: the worth halves with each half-life.
        return worth.value * 0.5 ** (max(0.0, now_s - worth.at_s) / self._half_life_s)

    def _forget(self) -> None:
        """Remove all but the most recently used requests."""
        last = [max(tool_worth.at_s for tool_worth in worths.values()) for worths in self._worths]
        # Sorted by row again: the order of arrival decides between equal votes.
        survivors = sorted(sorted(range(self._size), key=last.__getitem__)[-self._max_requests :])
        rows = np.zeros_like(self._rows)
        rows[: len(survivors)] = self._rows[survivors]
        place_of = {old: new for new, old in enumerate(survivors)}
        # Size 0 first: a vote in another thread then sees nothing, never inconsistent rows.
        self._size = 0
        self._rows, self._worths = rows, [self._worths[at] for at in survivors]
        self._slots = {vector: place_of[at] for vector, at in self._slots.items() if at in place_of}
        self._size = len(survivors)


def _shrunk(n_conversations: int) -> float:
    """Return the share of a vote that counts: half for one conversation, nearly all for many."""
    return n_conversations / (n_conversations + 1)


@dataclass(frozen=True)
class UsageBoost:
    """How earlier usage changed the scores of one request."""

    votes: Mapping[int, float] = field(default_factory=dict[int, float])
    """Trust times share, in [-1, 1], by slot of the tool."""

    siblings: frozenset[int] = frozenset()
    """Slots of tools whose server the conversation just used."""

    before: Mapping[int, float] = field(default_factory=dict[int, float])
    """Original values of the changed scores, by index of the score."""

    support: Mapping[int, Support] = field(default_factory=dict[int, Support])
    """Who voted, by slot of the tool."""

    habits: Mapping[int, HabitLift] = field(default_factory=dict[int, HabitLift])
    """What habits added, by slot of the tool."""

    def without(self, scores: NDArray[np.float32], below: float) -> NDArray[np.float32]:
        """Restore the original scores; scores of 0 and from `below` upwards stay."""
        plain = scores.copy()
        for at, score in self.before.items():
            if 0 < plain[at] < below:
                plain[at] = score
        return plain

    def reason(self, slot: int) -> str:
        """Explain the change of a tool's score in a few words; empty if there was none."""
        vote = self.votes.get(slot, 0.0)
        if vote >= _TOLD:
            return "used for similar requests"
        if vote <= -_TOLD:
            return "called wrong for a similar request"
        if slot in self.siblings:
            return "its server was just used"
        return "often used" if slot in self.habits and self.habits[slot].added >= _TOLD else ""

    def fields(self, slot: int) -> Mapping[str, object]:
        """Return the change of a tool's score for programs; empty if there was none."""
        fields: dict[str, object] = {}
        if slot in self.votes:
            fields["usage"] = round(self.votes[slot], 4)
        if slot in self.siblings:
            fields["recent"] = True
        if slot in self.habits:
            fields["habit"] = round(self.habits[slot].added, 4)
        return fields

    def is_source(self, slot: int) -> bool:
        """Return whether usage for similar requests raised a tool."""
        return self.votes.get(slot, 0.0) >= _TOLD

    def relevance(self, slot: int, relevance: float) -> float:
        """Return the relevance of a tool, raised by its usage for similar requests."""
        vote = max(0.0, self.votes.get(slot, 0.0))
        # Noisy OR: the tool helps unless both the ranking and earlier usage are wrong.
        raised = 1 - (1 - relevance) * (1 - _SURE * vote)
        is_proven = self.support.get(slot, Support()).is_proven
        return raised if is_proven else max(relevance, min(raised, _UNPROVEN))

    def relevance_before(self, slot: int, relevance: float, later: float) -> float:
        """Return the relevance of a hit before others, the most relevant of which has `later`.

        A tool that habits raised above them is as relevant as they are, with the usual limit.
        """
        if slot not in self.habits:
            return relevance
        is_proven = self.habits[slot].callers >= _AGREEING
        return max(relevance, later if is_proven else min(later, _UNPROVEN))


def apply_usage(
    scores: NDArray[np.float32],
    votes: Mapping[int, float],
    weights: UsageWeights,
    *,
    literal: NDArray[np.float32],
    support: Mapping[int, Support],
    slots: NDArray[np.int64] | None = None,
    siblings: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.float32], UsageBoost]:
    """Add votes to scores; return the new scores and the changes.

    A tool used by only one caller stays behind tools that match the words of the request better,
    and one used in only one conversation does not become first.

    Args:
        scores: Scores in [0, 1]; 0 for what was not found.
        votes: Trust times share by slot.
        weights: Weights of the votes.
        literal: How well the words of the request match, in [0, 1]; in the order of the scores.
        support: Who voted, by slot.
        slots: Slots of the scores, ascending; None if there is one score for each slot.
        siblings: Which of the scores belong to recently used servers; they are raised a little,
            except those of 0.
    """
    before: dict[int, float] = {}
    changed = scores.copy()
    near: list[int] = []
    if siblings is not None and weights.recent_weight:
        places = np.flatnonzero(siblings & (scores > 0))
        most = _highest_of_one(scores, literal, places, below_best=True)
        changed[places] = np.minimum(scores[places] + np.float32(weights.recent_weight), most)
        near = places.tolist()
    for slot, vote in votes.items():
        at = slot if slots is None else int(slots.searchsorted(slot))
        before[at] = float(changed[at])
        # A tool marked wrong moves down, but is never removed.
        raised = max(0.1 * before[at], before[at] + weights.weight * vote)
        voters = support.get(slot, Support())
        if vote > 0 and voters.callers < 2:
            alone = voters.conversations < 2
            (most_of_one,) = _highest_of_one(scores, literal, np.array([at]), below_best=alone)
            raised = min(raised, float(most_of_one))
        changed[at] = max(raised, before[at]) if vote > 0 else raised
    owners = near if slots is None else slots[near].tolist()
    boost = UsageBoost(votes, frozenset(owners), before, support)
    return np.round(changed, _DECIMALS), boost


def apply_habits(
    scores: NDArray[np.float32],
    boost: UsageBoost,
    habits: ToolHabits,
    *,
    literal: NDArray[np.float32],
    ranked: Sequence[int],
    keys: Sequence[str],
    slots: Sequence[int],
    weight: float,
) -> tuple[NDArray[np.float32], UsageBoost]:
    """Raise tools used often or together with the best ones; return the new scores and changes.

    The best hit stays the best, and habits of one caller lift no tool above another that matches
    the words of the request better.

    Args:
        scores: Scores in [0, 1].
        boost: What earlier usage changed before.
        habits: The habits of the project.
        literal: How well the words of the request match, in [0, 1]; in the order of the scores.
        ranked: Positions of the best scores, best first, all above 0.
        keys: Keys of these tools.
        slots: Their slots.
        weight: Weight of the habits, in [0, 1].
    """
    if len(ranked) < 2:
        return scores, boost
    at = np.array(ranked)
    reached = scores[at]
    old = reached.astype(np.float64)
    lifts = habits.lifts(keys, reached)
    new = old + weight * lifts.by_several
    (of_one,) = np.nonzero(lifts.by_one)
    most = _highest_of_one(reached, literal[at], of_one, below_best=True)
    raised = np.minimum(new[of_one] + weight * lifts.by_one[of_one], most)
    new[of_one] = np.maximum(new[of_one], raised)
    new[0] = old[0]
    # Those that would pass the best hit follow it, in the order of their sums.
    (over,) = np.nonzero(new[1:] > old[0] - _NEXT_BELOW)
    over = 1 + over[np.argsort(-new[1 + over], kind="stable")]
    new[over] = np.maximum(old[over], old[0] - _NEXT_BELOW * np.arange(1, len(over) + 1))
    (moved,) = np.nonzero(new > old)
    if not len(moved):
        return scores, boost
    changed = scores.copy()
    changed[at[moved]] = np.round(new[moved], _DECIMALS)
    before = {int(at[place]): float(old[place]) for place in moved} | dict(boost.before)
    lifted = {
        slots[place]: HabitLift(float(new[place] - old[place]), habits.callers_of(keys[place]))
        for place in moved.tolist()
    }
    return changed, replace(boost, before=before, habits=lifted)


def _highest_of_one(
    scores: NDArray[np.float32],
    literal: NDArray[np.float32],
    places: NDArray[np.int64],
    *,
    below_best: bool,
) -> NDArray[np.float64]:
    """Return the highest scores that one caller can cause: not above a better literal match."""
    exact = scores.astype(np.float64)
    highest = np.full(len(places), np.inf)
    # In blocks, since comparing all with all takes memory for each pair.
    for begin in range(0, len(places), _COMPARED_AT_ONCE):
        block = places[begin : begin + _COMPARED_AT_ONCE]
        ahead = scores > scores[block, None]
        better = ahead & (literal > literal[block, None])
        most = np.where(better, exact, np.inf).min(axis=1, initial=np.inf)
        if below_best:
            most = np.minimum(most, exact.max(initial=-np.inf))
        most = np.maximum(exact[block], most - _NEXT_BELOW)
        highest[begin : begin + len(block)] = np.where(ahead.any(axis=1), most, np.inf)
    return highest


def mix_in_unboosted(ranked: Sequence[int], plain: Sequence[int], share: float) -> list[int]:
    """Reserve a share of each five results for the best hits of the ranking without the log.

    Args:
        ranked: Positions, best first, with the log.
        plain: Positions, best first, without the log.
        share: Share of the results, in [0, 1].
    """
    reserved = round(share * _BLOCK)
    if not reserved or list(ranked) == list(plain):
        return list(ranked)
    mixed: dict[int, None] = {}
    waiting = list(ranked)
    while waiting and len(mixed) < len(ranked):
        # Reserved results come at the end of each block, once only as many are left as are owed.
        owed = [at for at in plain[: reserved * (len(mixed) // _BLOCK + 1)] if at not in mixed]
        left = _BLOCK - len(mixed) % _BLOCK
        mixed[owed[0] if len(owed) >= left else waiting[0]] = None
        waiting = [at for at in waiting if at not in mixed]
    return list(mixed)
