"""Runs inputs against a gateway, judges the answers, and makes failing inputs small."""

import asyncio
import gc
import logging
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final

import psutil

from tests.fuzz.gateway import ANSWER_S, AttackedGateway, open_gateway
from tests.fuzz.inputs import FuzzInput, load_corpus
from tests.fuzz.mutations import mutate
from tests.fuzz.oracles import FailureLog, fault_of
from tests.fuzz.seeds import console_seeds, mcp_seeds, openai_seeds, rest_seeds
from tests.fuzz.wires import Wires, open_wires
from toolgate.base.processes.memory import trim

_SHARES: Final = {"mcp": 62, "rest": 17, "openai": 6, "console": 5, "socket": 5, "stdio": 5}
"""Per cent of the inputs by what they attack."""

_AT_ONCE: Final = 16
"""Requests that run at the same time, so that they meet each other."""

_INPUTS_PER_GATEWAY: Final = 8_000
"""After so many, a new gateway: what was changed by earlier inputs would refuse all later ones."""

_CHECK_EVERY: Final = 400
_MOST_DESCRIPTORS: Final = 64
_MOST_TASKS: Final = 3_000
"""Handshake sessions that wait to be parked have tasks of their own."""

_MOST_GROWTH_BYTES: Final = 40 * 2**20
"""Growth of resident memory after the first gateways; what one gateway keeps goes with it."""

_WARM_GATEWAYS: Final = 3
_MOST_TRIES: Final = 400


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An input that must not have had the effect that it had."""

    entry: FuzzInput
    """As small as it could be made."""
    fault: str
    is_repeatable: bool
    """Whether the input fails alone, in a new gateway."""


@dataclass(kw_only=True)
class Campaign:
    """What a run did."""

    seed: int
    sent: int = 0
    duration_s: float = 0.0
    failures: list[Failure] = field(default_factory=list[Failure])
    statuses: Counter[str] = field(default_factory=Counter[str])
    gateways_rss_mb: list[float] = field(default_factory=list[float])
    """Resident memory after each gateway was closed."""

    def rate(self) -> float:
        """Inputs per second."""
        return self.sent / max(self.duration_s, 0.001)


@dataclass(frozen=True, kw_only=True)
class _Target:
    """A gateway with all ways in, and what it complains about."""

    gateway: AttackedGateway
    wires: Wires
    log: FailureLog

    async def fault_after(self, entry: FuzzInput, statuses: Counter[str] | None = None) -> str:
        """Send an input; what is wrong with the answer, empty: nothing."""
        try:
            if entry.kind == "socket":
                return await self.wires.send_bytes(entry.body)
            if entry.kind == "stdio":
                return await self.wires.send_line(entry.body)
            answer = await self.gateway.send(entry)
        except TimeoutError as error:
            return f"no end within {ANSWER_S:g} s: {error}"
        except Exception as error:  # noqa: BLE001 - whatever comes out of the application is a fault
            return f"{type(error).__name__} left the application: {error!s:.300}"
        if statuses is not None:
            statuses[str(int(answer.status))] += 1
        return fault_of(entry, answer)

    async def fault_of_health(self) -> str:
        """Whether the gateway still answers, on all ways in, and holds no more than it may."""
        for entry in _HEALTH:
            answer = await self.gateway.send(entry)
            if answer.status != 200 or fault_of(entry, answer):
                return f"afterwards {entry.target} answers {answer.status}: {answer.body[:300]!r}"
        if fault := await self.wires.fault_of_health():
            return fault
        tasks = len(asyncio.all_tasks())
        return f"{tasks} tasks" if tasks > _MOST_TASKS else ""


_HEALTH: Final = (
    FuzzInput(target="/healthz", headers=(("host", "127.0.0.1"),)),
    FuzzInput(
        target="/metrics", headers=(("host", "127.0.0.1"), ("authorization", "Bearer {admin}"))
    ),
)


@asynccontextmanager
async def _open_target() -> AsyncGenerator[_Target]:
    log = FailureLog()
    logging.getLogger().addHandler(log)
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with open_gateway(Path(folder)) as gateway, open_wires(gateway) as wires:
                yield _Target(gateway=gateway, wires=wires, log=log)
    finally:
        logging.getLogger().removeHandler(log)


async def attack(
    count: int,
    *,
    seed: int,
    most_failures: int = 5,
    on_progress: Callable[[Campaign], None] | None = None,
) -> Campaign:
    """Send `count` inputs that follow from the seed, those of the corpus first."""
    campaign = Campaign(seed=seed)
    began = time.monotonic()
    process = psutil.Process()
    chapter = 0
    while campaign.sent < count and len(campaign.failures) < most_failures:
        dice = Random(f"{seed} {chapter}")
        suspects: list[tuple[FuzzInput, str]] = []
        descriptors = process.num_fds()
        async with _open_target() as target:
            inputs = await _Inputs.of(target, dice)
            if chapter == 0:
                await _send_all(target, inputs.corpus, campaign, suspects)
            left = min(count, (chapter + 1) * _INPUTS_PER_GATEWAY) - campaign.sent
            while left > 0 and not suspects:
                batch = [inputs.next() for _ in range(min(left, _CHECK_EVERY))]
                await _send_all(target, batch, campaign, suspects)
                left -= len(batch)
        campaign.duration_s = time.monotonic() - began
        campaign.failures += (await _failures_of(suspects))[:most_failures]
        chapter += 1
        _note_resources(campaign, process, process.num_fds() - descriptors)
        if on_progress is not None:
            on_progress(campaign)
    return campaign


def _note_resources(campaign: Campaign, process: psutil.Process, more_descriptors: int) -> None:
    gc.collect()
    trim()
    campaign.gateways_rss_mb.append(process.memory_info().rss / 2**20)
    faults: list[str] = []
    if more_descriptors > _MOST_DESCRIPTORS:
        faults.append(f"{more_descriptors} descriptors stayed open after the gateway was closed")
    if len(campaign.gateways_rss_mb) > _WARM_GATEWAYS:
        growth = campaign.gateways_rss_mb[-1] - campaign.gateways_rss_mb[_WARM_GATEWAYS - 1]
        if growth * 2**20 > _MOST_GROWTH_BYTES:
            faults.append(f"memory grew by {growth:.1f} MB: {campaign.gateways_rss_mb}")
    campaign.failures += [
        Failure(entry=FuzzInput(), fault=fault, is_repeatable=False) for fault in faults
    ]


async def _send_all(
    target: _Target,
    batch: Sequence[FuzzInput],
    campaign: Campaign,
    suspects: list[tuple[FuzzInput, str]],
) -> None:
    """Send inputs, some at once, and note those whose effect is a fault."""
    target.log.take()
    for start in range(0, len(batch), _AT_ONCE):
        together = batch[start : start + _AT_ONCE]
        faults = await asyncio.gather(
            *(target.fault_after(entry, campaign.statuses) for entry in together)
        )
        campaign.sent += len(together)
        suspects += [(e, fault) for e, fault in zip(together, faults, strict=True) if fault]
        if complaint := target.log.take():
            suspects += [(entry, f"the log has {complaint[-2_000:]}") for entry in together]
    if fault := await target.fault_of_health():
        suspects += [(entry, fault) for entry in batch[-_AT_ONCE:]]


class _Inputs:
    """Endless inputs, which the dice alone decide."""

    def __init__(self, groups: dict[str, list[FuzzInput]], dice: Random) -> None:
        self.corpus = list(load_corpus().values())
        self._groups = groups
        self._dice = dice

    @classmethod
    async def of(cls, target: _Target, dice: Random) -> "_Inputs":
        groups = {
            "mcp": mcp_seeds(),
            "rest": await rest_seeds(target.gateway),
            "openai": openai_seeds(),
            "console": await console_seeds(target.gateway),
            "socket": target.wires.socket_seeds(),
            "stdio": target.wires.stdio_seeds(),
        }
        return cls(groups, dice)

    def next(self) -> FuzzInput:
        [name] = self._dice.choices(list(_SHARES), list(_SHARES.values()))
        group = self._groups[name]
        return mutate(self._dice.choice(group), group, self._dice)


# Smaller inputs


async def _failures_of(suspects: Sequence[tuple[FuzzInput, str]]) -> list[Failure]:
    """What fails alone of the inputs that ran together; the first one where nothing does."""
    failures: dict[str, Failure] = {}
    for entry, fault in suspects:
        failure = await _made_small(entry, fault)
        if failure.is_repeatable:
            failures.setdefault(failure.entry.to_json().decode(), failure)
    if suspects and not failures:
        entry, fault = suspects[0]
        return [Failure(entry=entry, fault=fault, is_repeatable=False)]
    return [*failures.values()]


async def _made_small(entry: FuzzInput, fault: str) -> Failure:
    """The failure with the smallest input that still fails alone in a new gateway."""
    async with _open_target() as target:

        async def fails(candidate: FuzzInput) -> str:
            target.log.take()
            seen = await target.fault_after(candidate)
            return seen or target.log.take() or await target.fault_of_health()

        seen = await fails(entry)
        if not seen:
            return Failure(entry=entry, fault=fault, is_repeatable=False)
        tries = 0
        is_smaller = True
        while is_smaller and tries < _MOST_TRIES:
            is_smaller = False
            for candidate in _smaller(entry):
                tries += 1
                if tries > _MOST_TRIES:
                    break
                if again := await fails(candidate):
                    entry, seen, is_smaller = candidate, again, True
                    break
        return Failure(entry=entry, fault=seen, is_repeatable=True)


def _smaller(entry: FuzzInput) -> list[FuzzInput]:
    """Inputs with a part left out, large parts first."""
    candidates = [
        replace(entry, headers=entry.headers[:index] + entry.headers[index + 1 :])
        for index in range(len(entry.headers))
    ]
    size = len(entry.body) // 2
    while size:
        candidates += [
            replace(entry, body=entry.body[:start] + entry.body[start + size :])
            for start in range(0, len(entry.body), size)
        ]
        size = size // 2 if size < 200 else size // 4
    path, mark, _ = entry.target.partition("?")
    return [*([replace(entry, target=path)] if mark else []), *candidates]
