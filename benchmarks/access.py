"""Measures what it costs to authenticate callers and to decide what they may do.

    python -m benchmarks.access [--quick] [--json]

Calls go through the complete HTTP interface in this process, alternating between everything off
(`auth = "local"`, no audit, no limits) and everything on. Decisions are made over 10,000 tools,
1,000 rules and 10,000 tokens. CPU time of this process; both rows include the upstream server,
which runs in it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import median

from benchmarks._inprocess import Request, echo_request, send, wait_until_idle
from benchmarks._report import Report, Target, main
from toolgate.security.access import AccessRule, Policy, PolicyInputs, parse_pattern
from toolgate.server.http import HttpApplication, build_app
from toolgate.settings import AuditSettings, LimitSettings, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Identity, ServerSpec


def measure(quick: bool) -> Report:
    """Call, then decide; return the table."""
    off_ms, audit_ms, on_ms = asyncio.run(_calls(blocks=2 if quick else 30))
    rows = [
        {"what": "call, everything off, CPU ms", "value": off_ms},
        {"what": "call, audit on, CPU ms", "value": audit_ms},
        {"what": "call, token + decision + limits + audit, CPU ms", "value": on_ms},
        {"what": "ratio", "value": on_ms / off_ms},
        {"what": "overhead per call, CPU ms", "value": on_ms - off_ms},
    ]
    scale = _decisions(tokens=200 if quick else 10_000)
    rows += [{"what": name, "value": value} for name, value in scale.items()]
    return Report(
        name="access",
        title="Identity, decision, limits and receipt",
        rows=rows,
        targets=(
            Target(what="overhead per call, CPU ms", measured=on_ms - off_ms, limit=0.25),
            Target(what="rules compiled, s", measured=scale["rules compiled, s"], limit=2.0),
            Target(what="first mask, ms", measured=scale["first mask, worst, ms"], limit=2.0),
            Target(what="cached mask, µs", measured=scale["cached mask, µs"], limit=20.0),
        ),
        notes=(
            "10,000 tools of 200 servers, 1,000 rules, every token with two roles and a group.",
        ),
    )


async def _calls(*, blocks: int) -> tuple[float, float, float]:
    def server() -> dict[str, object]:
        return {"a": FakeUpstream({"echo": lambda _params: text_result("x")})}

    off = Settings(audit=AuditSettings(enabled=False))
    on = Settings(
        auth="required",
        limits=LimitSettings(
            calls_per_minute=1_000_000, calls_per_day=10**9, tokens_per_day=10**12
        ),
    )
    async with (
        memory_app(server(), off) as plain,
        memory_app(server(), Settings()) as audited,
        memory_app(server(), on) as shared,
    ):
        made = await shared.gateway.admin.create_token(Caller.local(), "bench", allow=["a:*"])
        bearer = (b"authorization", f"Bearer {made.secret}".encode())
        rows = [(build_app(app), echo_request()) for app in (plain, audited)]
        rows.append((build_app(shared), echo_request(bearer)))
        times: list[list[float]] = [[] for _ in rows]
        async with rows[0][0].running(), rows[1][0].running(), rows[2][0].running():
            await wait_until_idle()
            for _ in range(blocks):
                for at, (door, request) in enumerate(rows):
                    times[at].append(await _block(door, request))
    off_ms, audit_ms, on_ms = map(median, times)
    return off_ms, audit_ms, on_ms


async def _block(door: HttpApplication, request: Request, calls: int = 200) -> float:
    """Average CPU milliseconds of a call, including the audit writer's share."""
    began = time.process_time()
    for _ in range(calls):
        await send(door, request)
    await asyncio.sleep(0.15)  # the audit is written in the meantime
    return (time.process_time() - began) * 1000 / calls


@dataclass(frozen=True, kw_only=True)
class _Tool:
    key: str
    server: str
    read_only: bool
    destructive: bool
    internal: bool = False


@dataclass
class _Things:
    version: int
    tools: tuple[_Tool, ...]

    def tool(self, key: str) -> _Tool | None:
        return next((tool for tool in self.tools if tool.key == key), None)


@dataclass
class _Place:
    generation: int
    snapshot: _Things
    specs: list[ServerSpec]


def _decisions(*, tokens: int) -> dict[str, float]:
    random = Random(7)
    verbs = ("get", "list", "create", "delete", "update", "search", "run", "read", "send", "merge")
    nouns = ("issue", "page", "file", "user", "order", "note")
    servers = [f"server-{number}" for number in range(200)]
    tools = tuple(
        _Tool(
            key=f"{server}:{random.choice(verbs)}_{random.choice(nouns)}_{number}",
            server=server,
            read_only=random.random() < 0.4,
            destructive=random.random() < 0.3,
        )
        for server in servers
        for number in range(50)
    )
    place = _Place(1, _Things(1, tools), [ServerSpec(name=name, kind="stdio") for name in servers])
    patterns: list[Callable[[], str]] = [
        lambda: random.choice(servers),
        lambda: f"{random.choice(servers)}:*",
        lambda: f"{random.choice(servers)}:{random.choice(verbs)}_*",
        lambda: random.choice(tools).key,
        lambda: f"server-{random.randrange(20)}*:*{random.choice(nouns)}*{random.randrange(50)}",
        lambda: f"*:{random.choice(verbs)}_{random.choice(nouns)}_{random.randrange(50)}",
    ]
    rules: list[AccessRule] = []
    for number in range(1_000):
        kind, pattern = parse_pattern(random.choice(patterns)())
        rules.append(
            AccessRule(
                effect="allow" if number % 4 else "deny",
                who=random.choice(
                    [
                        f"role:r{number % 40}",
                        f"group:g{number % 20}",
                        f"token:t{number}",
                        "everyone",
                    ]
                ),
                kind=kind,
                pattern=pattern,
                hint=random.choice(["", "", "", "read_only"]),
                source=f"row {number}",
            )
        )
    policy = Policy(place, PolicyInputs(required=True, rules=tuple(rules)))
    began = time.process_time()
    policy.compile_now()
    compiled_s = time.process_time() - began
    callers = [
        Caller(
            caller_id=f"token:{number}",
            identity=Identity(
                caller_id=f"token:{number}",
                kind="token",
                token=f"t{number}",
                roles=(f"r{number % 40}", f"r{number % 39}"),
                groups=(f"g{number % 20}",),
                projects=(),
            ),
        )
        for number in range(tokens)
    ]
    first = [
        _timed(lambda caller=caller: policy.mask(caller, place.snapshot)) for caller in callers
    ]
    again = [
        _timed(lambda caller=caller: policy.mask(caller, place.snapshot)) for caller in callers
    ]
    keys = [random.choice(tools).key for _ in callers]
    pairs = list(zip(callers, keys, strict=True))
    decided = [
        _timed(lambda caller=caller, key=key: policy.decide(caller, "call", key))
        for caller, key in pairs[:1_000]
    ]
    repeated = [
        _timed(lambda caller=caller, key=key: policy.decide(caller, "call", key))
        for caller, key in pairs[:1_000]
    ]
    first.sort()
    return {
        "rules compiled, s": compiled_s,
        "first mask, median, ms": median(first) * 1000,
        # The slowest one or two of ten thousand are caused by the machine.
        "first mask, worst, ms": first[-max(1, len(first) // 1000) - 1] * 1000,
        "cached mask, µs": median(again) * 1e6,
        "first decision, median, µs": median(decided) * 1e6,
        "cached decision, µs": median(repeated) * 1e6,
    }


def _timed(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


if __name__ == "__main__":
    main("access", measure)
