"""Learning from usage: what searches showed, and which of their tools were executed.

A call belongs to the last search of its conversation that showed its tool. Four things are
learned from that, each per project: votes of earlier requests (`usage_votes`), the cutoff below
which nothing fits (`personal_cutoff`, also per caller), the habits of the project
(`tool_habits`), and the tools used last. Only the first read of a project's log waits for the
store, and only briefly.
"""

import asyncio
import logging
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from time import time

import anyio.lowlevel
import numpy as np
from numpy.typing import NDArray

from toolgate.base.ids import new_id, utc_text_of
from toolgate.search.base import Hit, SearchedQuery
from toolgate.search.personal_cutoff import JudgedSearch, PersonalCutoff
from toolgate.search.relevance.tool_habits import ToolHabits
from toolgate.search.relevance.usage_votes import UsageHistory, UsageVotes, UsageWeights
from toolgate.search.usage.writer import UsageLogWriter
from toolgate.search.usage.wrong_marks import WrongMarks
from toolgate.settings import CurrentSettings
from toolgate.store import (
    StoredSearch,
    StoredUse,
    UsageFilter,
    UsageRepository,
    UseOutcome,
)
from toolgate.types import Caller

log = logging.getLogger(__name__)

_LOADED_MOST = 20_000
"""Most searches of the log that are read at a time; chosen."""
_FIRST_LOOK_S = 0.25
"""Most seconds that the first search of a project waits for its log; chosen."""
_LOOK_AGAIN_S = 60.0
"""Seconds between two reads of the log, to which other processes write too; chosen."""
_CONVERSATIONS = 250
"""Most conversations in memory, the last used ones. Chosen: a call follows its search within
minutes, and the 20 searches of a conversation take 90 KB."""
_CALLERS = 1_000
"""Most callers of a project whose judged searches are in memory; chosen."""
_SEARCHES = 20
"""Most searches of a conversation to which a call may belong; chosen."""
_USED = 5
"""Number of last used tools stored for each conversation; chosen."""
_USED_FOR_S = 1_800.0
"""Seconds for which a tool counts as just used: half an hour; chosen."""
_JUDGED_MOST = 200
"""Most judged searches of a caller in memory; chosen."""
_QUERY_CHARS = 2_000
"""Most characters of a query that are logged; chosen."""
_HALF = np.dtype("<f2")
_CALIBRATED = PersonalCutoff()
_SIGNALS: Mapping[UseOutcome, float] = {
    "ok": 1.0,
    "reworded": 1.0,
    "right": 2.0,
    "wrong": -2.0,
    "error": 0.0,
}
"""An error says nothing about the choice: the usual causes are wrong arguments or a server that
is down."""
_REWORDED_S = 600.0
"""Most seconds between a search and its rewording that led to a call; chosen."""
_REWORDED_COSINE = 0.5
"""Lowest cosine of two searches that count as wordings of the same request; chosen."""


@dataclass(frozen=True, kw_only=True)
class LearningStatus:
    """What was learned in a project, for commands and the API."""

    enabled: bool
    """Whether usage is logged and learned from."""

    requests: int
    """Number of earlier requests that vote."""

    tools: int
    """Number of tools that ran successfully or were marked."""

    pairs: int
    """Number of pairs of tools that are used together."""

    judged: int
    """Number of this caller's searches that move the cutoff for "nothing fits"."""

    pending: int
    """Number of rows in memory that are not yet written."""

    dropped: int
    """Number of rows lost because the store failed for too long."""

    last_error: str
    """Why the store does not accept rows; empty while it works."""


@dataclass(frozen=True)
class Learned:
    """Earlier usage in a project, as a search may use it."""

    by_model: Mapping[str, UsageHistory]
    """Earlier requests, by identity of their embedder."""
    now_s: float
    """Time of the request, in seconds since 1970."""
    line: PersonalCutoff = field(default_factory=PersonalCutoff)
    """The caller's own cutoff for "nothing fits"."""
    habits: ToolHabits = field(default_factory=ToolHabits)
    """Tools used often and together; the same object while more is learned."""
    version: Hashable = None
    """Changes when more is learned; an answer may be cached while it is the same."""
    wrong: Mapping[str, WrongMarks] = field(default_factory=dict[str, WrongMarks])
    """Tools that were marked wrong, by identity of the embedder."""
    caller_id: str = ""
    """Who searches."""

    def votes(self, vector: NDArray[np.float32], model: str, weights: UsageWeights) -> UsageVotes:
        """Return the votes of earlier requests; `model` is the identity of the embedder."""
        history, wrong = self.by_model.get(model), self.wrong.get(model)
        votes = UsageVotes() if history is None else history.votes(vector, weights, self.now_s)
        if wrong is None:
            return votes
        against = wrong.votes_against(vector, weights, self.now_s, self.caller_id)
        if not against:
            return votes
        shares = {key: votes.trust * share for key, share in votes.shares.items()}
        for key, share in against.items():
            shares[key] = max(-1.0, shares.get(key, 0.0) - share)
        return replace(votes, trust=1.0, shares=shares)


@dataclass
class _Project:
    """What is known about the usage in a project."""

    by_model: dict[str, UsageHistory] = field(default_factory=dict[str, UsageHistory])
    wrong: dict[str, WrongMarks] = field(default_factory=dict[str, WrongMarks])
    habits: ToolHabits = field(default_factory=ToolHabits)
    judged: dict[str, OrderedDict[str, JudgedSearch]] = field(
        default_factory=dict[str, OrderedDict[str, JudgedSearch]]
    )
    """Judgements, by caller and search."""
    counted: int = 0
    """Number of uses that were counted."""
    seen: dict[str, str] = field(default_factory=dict[str, str])
    """Times of the uses since `looked_at`, which will be read again, by ID."""
    looked_at: str = ""
    """Time since which uses have not been read; empty if none have been read yet."""
    looked_s: float | None = None
    """Time of the last read, from the clock of the event loop."""

    def n_requests(self) -> int:
        """Return the number of requests with uses, wrong marks or both."""
        return len(
            {
                (model, vector)
                for known in (self.by_model, self.wrong)
                for model, requests in known.items()
                for vector in requests.requests()
            }
        )


@dataclass
class _ConversationUse:
    """Searches and uses of a conversation."""

    searches: deque[tuple[StoredSearch, frozenset[str]]] = field(
        default_factory=lambda: deque[tuple[StoredSearch, frozenset[str]]](maxlen=_SEARCHES)
    )
    """Searches, newest first, with the keys of all tools that they showed."""
    used: deque[tuple[str, float]] = field(
        default_factory=lambda: deque[tuple[str, float]](maxlen=_USED)
    )
    """Used tools and the times of use, newest first."""
    noted: set[tuple[str, str, UseOutcome]] = field(
        default_factory=set[tuple[str, str, UseOutcome]]
    )
    """Search, tool and outcome of logged uses: a hundred calls say no more than one."""

    def led_to_call(self, search: StoredSearch) -> bool:
        """Return whether a tool of a search ran successfully or was marked right."""
        return any(
            search_id == search.search_id and _SIGNALS[outcome] > 0
            for search_id, _, outcome in self.noted
        )


class Learning:
    """Records usage and returns what was learned. Belongs to one event loop."""

    def __init__(
        self,
        store: UsageRepository,
        *,
        settings: CurrentSettings,
        clock: Callable[[], float] = time,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._writer = UsageLogWriter(store)
        self._projects: dict[str, _Project] = {}
        self._talks: OrderedDict[tuple[str, str, str], _ConversationUse] = OrderedDict()
        self._looks: dict[str, asyncio.Task[None]] = {}

    async def aclose(self) -> None:
        """Write pending rows, and stop."""
        for task in self._looks.values():
            task.cancel()
        await asyncio.gather(*self._looks.values(), return_exceptions=True)
        await self._writer.aclose()

    async def flush(self) -> bool:
        """Write all pending rows now; False if the store fails."""
        return await self._writer.flush()

    # Learned usage

    async def learned(self, caller: Caller) -> Learned | None:
        """Return the usage for a search of this caller; None while learning is off."""
        rules = self._settings.current.usage
        if not rules.enabled:
            return None
        project = await self._project(caller.project_id)
        line = self._line(project, caller) if rules.adapt_line else _CALIBRATED
        # Whoever has marked tools wrong gets answers of its own.
        marker = (
            caller.caller_id if any(m.has(caller.caller_id) for m in project.wrong.values()) else ""
        )
        version = caller.project_id, project.counted, _digest_of(line), marker
        # Without votes there is nothing that could have aged.
        now_s = self._clock() if project.by_model or project.wrong else 0.0
        return Learned(
            project.by_model,
            now_s,
            line,
            project.habits,
            version,
            project.wrong,
            caller.caller_id,
        )

    def recent(self, caller: Caller) -> tuple[str, ...]:
        """Return keys of tools that the conversation used in the last half hour, newest first."""
        talk = self._talks.get(caller.thread)
        if talk is None or not talk.used or not self._settings.current.usage.enabled:
            return ()
        since = self._clock() - _USED_FOR_S
        return tuple(dict.fromkeys(key for key, at_s in talk.used if at_s >= since))

    def used_together(
        self, project_id: str, keys: Collection[str], limit: int = 3
    ) -> dict[str, list[str]]:
        """Return tools often used together with each of these, the most frequent first."""
        project = self._projects.get(project_id)
        rules = self._settings.current.usage
        if project is None or not rules.enabled or not rules.together:
            return {}
        return project.habits.used_together(keys, limit)

    async def status(self, caller: Caller) -> LearningStatus:
        """Return how much was learned in the caller's project."""
        project = await self._project(caller.project_id)
        return LearningStatus(
            enabled=self._settings.current.usage.enabled,
            requests=project.n_requests(),
            tools=len(project.habits),
            pairs=project.habits.n_pairs(),
            judged=len(project.judged.get(caller.caller_id, ())),
            pending=self._writer.pending,
            dropped=self._writer.dropped,
            last_error=self._writer.last_error,
        )

    # Recording usage

    def note_search(
        self,
        caller: Caller,
        asked: Sequence[SearchedQuery],
        model: str,
        hits: Sequence[Hit],
        beside: Collection[str] = (),
    ) -> None:
        """Record an answered discovery.

        Args:
            caller: The caller.
            asked: Its queries, as the strategy read them.
            model: Identity of the embedder of their vectors.
            hits: The hits in the answer.
            beside: Keys of other tools in the answer: alternatives, batches.
        """
        settings = self._settings.current
        if not settings.usage.enabled:
            return
        talk = self._talk(caller)
        single = len(asked) == 1
        at = utc_text_of(self._clock())
        for query in asked:
            query_hits = [
                hit for hit in hits if single or hit.fields.get("query") == query.query[:200]
            ]
            vector = b"" if query.vector is None else query.vector.astype(_HALF).tobytes()
            search = StoredSearch(
                search_id=new_id(),
                at=at,
                project_id=caller.project_id,
                caller_id=caller.caller_id,
                conversation=caller.conversation,
                model=model if vector else "",
                vector=vector,
                shown=tuple((hit.key, hit.relevance) for hit in query_hits),
                margin=query.margin,
                weak=query.fit == "none",
                query=query.query[:_QUERY_CHARS] if settings.audit.keep_queries else None,
            )
            self._writer.put(search)
            keys = frozenset(hit.key for hit in query_hits)
            talk.searches.appendleft((search, keys))
        if talk.searches and beside:
            # Other tools in the answer belong to the search as a whole, and are stored with its
            # first query.
            slot = min(len(asked), len(talk.searches)) - 1
            if slot >= 0:
                search, keys = talk.searches[slot]
                talk.searches[slot] = search, keys | frozenset(beside)

    def note_call(self, caller: Caller, key: str, *, ok: bool) -> None:
        """Record the end of a call: it belongs to the conversation's last search with its tool."""
        if not self._settings.current.usage.enabled:
            return
        talk = self._talk(caller)
        if ok:
            talk.used.appendleft((key, self._clock()))
        search = next((search for search, keys in talk.searches if key in keys), None)
        if search is None:
            return
        self._note(talk, search, key, "ok" if ok else "error")
        if ok:
            for earlier in _earlier_wordings(talk, search):
                self._note(talk, earlier, key, "reworded")

    async def mark(self, caller: Caller, key: str, *, right: bool) -> bool:
        """Record a person's judgement of a tool that a search showed; False if no search did."""
        talk = self._talk(caller)
        search = next((search for search, keys in talk.searches if key in keys), None)
        if search is None:
            await self.flush()
            usage_filter = UsageFilter(
                project_id=caller.project_id, caller_id=caller.caller_id, limit=100
            )
            for logged in await self._store.select(usage_filter):
                if key in {tool for tool, _ in logged.search.shown}:
                    search = logged.search
                    break
        if search is None:
            return False
        await self._project(caller.project_id)
        self._note(talk, search, key, "right" if right else "wrong")
        await self.flush()  # a person who is told that it is kept can look at it at once
        return True

    async def clear(self, project_id: str) -> int:
        """Delete the usage of a project; return the number of deleted searches."""
        await self.flush()
        self._writer.forget_project(project_id)
        self._projects.pop(project_id, None)
        for thread in [thread for thread in self._talks if thread[0] == project_id]:
            del self._talks[thread]
        return await self._store.clear(project_id)

    def _note(
        self, talk: _ConversationUse, search: StoredSearch, key: str, outcome: UseOutcome
    ) -> None:
        event = search.search_id, key, outcome
        if event in talk.noted:
            return
        if len(talk.noted) > 100 * _SEARCHES:
            talk.noted.clear()
        talk.noted.add(event)
        use = StoredUse(
            use_id=new_id(),
            search_id=search.search_id,
            at=utc_text_of(self._clock()),
            project_id=search.project_id,
            tool=key,
            outcome=outcome,
        )
        self._writer.put(use)
        project = self._projects.get(search.project_id)
        if project is not None:
            self._take(project, search, use)

    # Usage of a project

    async def _project(self, project_id: str) -> _Project:
        project = self._projects.get(project_id)
        if project is None:
            project = self._projects[project_id] = _Project()
        looking = self._looks.get(project_id)
        now_s = asyncio.get_running_loop().time()
        first = project.looked_s is None
        if looking is None and (
            project.looked_s is None or now_s - project.looked_s > _LOOK_AGAIN_S
        ):
            # An empty context: the deadline of the request that happens to start it does not apply.
            looking = asyncio.create_task(self._read_log(project_id, project), context=Context())
            self._looks[project_id] = looking
            looking.add_done_callback(lambda _: self._looks.pop(project_id, None))
        if first and looking is not None:
            await asyncio.wait({looking}, timeout=_FIRST_LOOK_S)
        return project

    async def _read_log(self, project_id: str, project: _Project) -> None:
        """Read the log entries of other and earlier processes."""
        # Another process may write a use a moment after it happened.
        read_at = utc_text_of(self._clock() - _LOOK_AGAIN_S)
        since = project.looked_at
        usage_filter = UsageFilter(
            project_id=project_id, with_uses=True, since=since, limit=_LOADED_MOST
        )
        try:
            entries = await self._store.select(usage_filter)
        except Exception as error:  # noqa: BLE001 - searches go on without what was learned
            log.warning("usage cannot be read", extra={"reason": str(error)})
            entries = []
        else:
            project.looked_at = read_at
        project.looked_s = asyncio.get_running_loop().time()
        for at, logged in enumerate(reversed(entries)):
            for use in logged.uses:
                if use.at >= since:  # earlier ones of the same search were read before
                    self._take(project, logged.search, use)
            if at % 200 == 199:
                await anyio.lowlevel.checkpoint()  # a long log must hold up nobody
        project.seen = {
            use_id: used_at
            for use_id, used_at in project.seen.items()
            if used_at >= project.looked_at
        }

    def _take(self, project: _Project, search: StoredSearch, use: StoredUse) -> None:
        if use.use_id in project.seen:
            return
        project.seen[use.use_id] = use.at
        project.counted += 1
        at_s = _seconds(use.at)
        signal = _SIGNALS[use.outcome]
        if signal and search.vector:
            self._add_vote(project, search, use.tool, signal, at_s)
        if use.outcome == "ok":
            project.habits.add(
                use.tool, at_s, caller=search.caller_id, conversation=search.conversation
            )
        if search.margin is not None and use.outcome not in {"error", "reworded"}:
            fitted = use.outcome in {"ok", "right"}
            judged = project.judged.setdefault(search.caller_id, OrderedDict())
            before = judged.get(search.search_id)
            # A search that fitted stays so; a tool marked wrong affects the cutoff only if it was
            # the best hit.
            if fitted or (before is None and search.shown and search.shown[0][0] == use.tool):
                judged[search.search_id] = JudgedSearch(
                    margin=search.margin, model=search.model, fitted=fitted, at_s=at_s
                )
                while len(judged) > _JUDGED_MOST:
                    judged.popitem(last=False)
            if len(project.judged) > _CALLERS:
                del project.judged[next(iter(project.judged))]

    def _add_vote(
        self, project: _Project, search: StoredSearch, key: str, signal: float, at_s: float
    ) -> None:
        settings = self._settings.current.usage
        dim, half_life_s = len(search.vector) // 2, settings.half_life_days * 86_400
        wrong = project.wrong.get(search.model)
        if signal < 0 and wrong is None:
            wrong = project.wrong[search.model] = WrongMarks(dim, half_life_s=half_life_s)
        if wrong is not None:
            wrong.add(search.vector, key, search.caller_id, signal, at_s)
        if signal < 0:
            return
        history = project.by_model.get(search.model)
        if history is None:
            history = project.by_model[search.model] = UsageHistory(
                dim, half_life_s=half_life_s, max_requests=settings.max_requests
            )
        history.add(
            search.vector,
            key,
            signal,
            at_s,
            caller=search.caller_id,
            conversation=search.conversation,
        )

    def _line(self, project: _Project, caller: Caller) -> PersonalCutoff:
        judged = project.judged.get(caller.caller_id)
        if not judged:
            return _CALIBRATED
        half_life_s = self._settings.current.usage.half_life_days * 86_400
        return PersonalCutoff(tuple(judged.values()), self._clock(), half_life_s)

    def _talk(self, caller: Caller) -> _ConversationUse:
        talk = self._talks.get(caller.thread)
        if talk is None:
            talk = self._talks[caller.thread] = _ConversationUse()
        self._talks.move_to_end(caller.thread)
        if len(self._talks) > _CONVERSATIONS:
            self._talks.popitem(last=False)
        return talk


def _seconds(at: str) -> float:
    """Convert an ISO 8601 time to seconds since 1970."""
    return datetime.fromisoformat(at).timestamp()


def _digest_of(line: PersonalCutoff) -> bytes:
    """Return a digest of the judged searches; storing these in each cached answer took 9 KB."""
    judged = array("d", [value for search in line.judged for value in search[:2]])
    return blake2b(judged, digest_size=16).digest()


def _earlier_wordings(talk: _ConversationUse, search: StoredSearch) -> list[StoredSearch]:
    """Return earlier searches for about the same thing that led to no call."""
    searches = [earlier for earlier, _ in talk.searches]
    at = searches.index(search)
    return [
        earlier
        for earlier in searches[at + 1 :]
        if not talk.led_to_call(earlier)
        # Queries of the same discovery have the same time: they are steps, not rewordings.
        if 0 < _seconds(search.at) - _seconds(earlier.at) <= _REWORDED_S
        if earlier.model == search.model and earlier.vector and search.vector
        if _cosine(earlier.vector, search.vector) >= _REWORDED_COSINE
    ]


def _cosine(left: bytes, right: bytes) -> float:
    """Return the cosine of two stored vectors; NaN if one of them is 0."""
    rows = [np.frombuffer(vector, _HALF).astype(np.float32) for vector in (left, right)]
    lengths = float(np.linalg.norm(rows[0]) * np.linalg.norm(rows[1]))
    return float(rows[0] @ rows[1]) / lengths if lengths else float("nan")
