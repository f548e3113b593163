"""Kept results: only where a tool asks for it, and never for others than it says."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.app.app import App
from toolgate.errors import SettingError
from toolgate.gateway.calls import result_cache
from toolgate.settings import GuardTable, PermissionTable, ResultSettings, Settings, load
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import CacheRule, Caller, Identity, Json

READS = {"annotations": {"readOnlyHint": True}}
MINUTE = CacheRule(ttl_s=60)
ME = Caller.local()


@dataclass
class Shop:
    app: App
    upstream: FakeUpstream
    asked: list[Json] = field(default_factory=list[Json])

    async def stock(self, caller: Caller = ME, **arguments: Any) -> str:
        with anyio.fail_after(HANG_S):
            result = await self.app.gateway.calls.execute(caller, "shop:stock", arguments)
        return str(result["content"][0]["text"])

    async def run(self, tool: str) -> Json:
        with anyio.fail_after(HANG_S):
            return await self.app.gateway.calls.execute(ME, f"shop:{tool}", {})


@asynccontextmanager
async def shop(
    rules: Mapping[str, CacheRule] | None = None, *, settings: Settings | None = None, **spec: Any
) -> AsyncGenerator[Shop]:
    """Each call of `stock` and of the other tools gives another number."""
    place: Shop

    def count(params: Json) -> Json:
        place.asked.append(params.get("arguments", {}))
        return text_result(str(len(place.asked)))

    def fail(params: Json) -> Json:
        return {**count(params), "isError": True}

    tools = {"stock": count, "fails": fail, "buy": count}
    definitions = {"stock": READS, "fails": READS}
    upstream = FakeUpstream(tools, definitions=definitions)
    caches = {"stock": MINUTE} if rules is None else rules
    async with memory_app({"shop": upstream}, settings, tool_caches=caches, **spec) as app:
        place = Shop(app, upstream)
        yield place


def anna(**more: Any) -> Caller:
    identity = Identity(caller_id="anna", kind="token", token="anna")
    return Caller(caller_id="anna", identity=identity, **more)


async def test_without_the_setting_every_call_reaches_the_server() -> None:
    async with shop({}) as place:
        assert [await place.stock(), await place.stock()] == ["1", "2"]


async def test_the_same_question_of_the_same_caller_is_answered_from_memory() -> None:
    async with shop() as place:
        assert [await place.stock(of="tea", size=1), await place.stock(size=1, of="tea")] == [
            "1"
        ] * 2
        assert await place.stock(of="coffee", size=1) == "2"
        assert await place.stock(of="tea", size=1) == "1"


async def test_the_audit_tells_which_answer_was_kept() -> None:
    async with shop() as place:
        await place.stock()
        await place.stock()
        await place.app.recorder.flush()
        records = await place.app.store.audit.select(AuditFilter(action="call", phase="outcome"))
        kept = [record.detail.get("cached_for_s") for record in records]
        assert kept[1] is None
        assert kept[0] is not None
        assert 0 <= kept[0] < HANG_S
        assert len({record.response_sha256 for record in records}) == 1


async def test_a_kept_result_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(result_cache, "monotonic", lambda: now)
    async with shop() as place:
        await place.stock()
        now += 59
        assert await place.stock() == "1"
        now += 1
        assert await place.stock() == "2"


async def test_nobody_gets_what_was_given_to_another_caller() -> None:
    async with shop() as place:
        project = replace(ME, project_id="team")
        asking = [ME, anna(), project, replace(ME, folder="/home/ann")]
        assert [await place.stock(caller) for caller in asking] == ["1", "2", "3", "4"]
        assert [await place.stock(caller) for caller in asking] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("scope", "answers"), [("project", ["1", "1", "2"]), ("all", ["1", "1", "1"])]
)
async def test_a_result_is_shared_as_far_as_the_setting_says(
    scope: Any, answers: list[str]
) -> None:
    async with shop({"stock": CacheRule(ttl_s=60, scope=scope)}) as place:
        callers = [ME, anna(), anna(project_id="team")]
        assert [await place.stock(caller) for caller in callers] == answers


async def test_what_a_caller_may_not_call_is_not_given_from_memory_either() -> None:
    rule = PermissionTable(to=("token:berta",), allow=("*",))
    settings = Settings(auth="required", permission=(rule,))
    rules = {"stock": CacheRule(ttl_s=60, scope="all")}
    async with shop(rules, settings=settings) as place:
        assert await place.stock() == "1"
        params = {"name": "tool_execute", "arguments": {"toolKey": "shop:stock"}}
        refused = await place.app.gateway.call(anna(), params, None)
        assert refused["isError"] is True
        assert "There is no tool" in refused["content"][0]["text"]


async def test_headers_that_go_on_to_the_server_belong_to_the_question() -> None:
    async with shop(forward_headers=("x-tenant",)) as place:
        red, blue = (replace(ME, headers={"x-tenant": colour}) for colour in ("red", "blue"))
        asking = [red, blue, red, replace(red, headers={"x-tenant": "red", "x-other": "1"})]
        assert [await place.stock(caller) for caller in asking] == ["1", "2", "1", "1"]


async def test_a_tool_that_may_write_ends_what_was_kept_of_its_server() -> None:
    async with shop() as place:
        await place.stock()
        await place.run("buy")
        assert await place.stock() == "3"
        assert await place.stock() == "3"


async def test_a_new_connection_and_a_changed_list_end_what_was_kept() -> None:
    async with shop() as place:
        await place.stock()
        before = place.app.gateway.servers.status(ME, "shop")
        assert before is not None
        place.upstream.crash()
        with anyio.fail_after(HANG_S):
            while True:
                status = place.app.gateway.servers.status(ME, "shop")
                assert status is not None
                if status.state == "ready" and status.restarts > before.restarts:
                    break
                await anyio.sleep(0.01)
        assert await place.stock() == "2"
        place.upstream.tools["more"] = lambda params: text_result("x")
        await place.upstream.announce()
        with anyio.fail_after(HANG_S):
            while place.app.gateway.visible.tool_or_none(ME, "shop:more") is None:
                await anyio.sleep(0.01)
        assert await place.stock() == "3"


async def test_errors_are_not_kept() -> None:
    async with shop({"fails": MINUTE}) as place:
        texts = [(await place.run("fails"))["content"][0]["text"] for _ in range(2)]
        assert texts == ["1", "2"]


@pytest.mark.parametrize(
    ("rules", "spec", "problem"),
    [
        ({"buy": MINUTE}, {}, "not marked read-only"),
        ({"stock": MINUTE}, {"trust": False}, "not trusted"),
        ({"nothing": MINUTE}, {}, "no such tool"),
    ],
)
async def test_results_that_are_not_kept_are_a_problem_that_is_shown(
    rules: Mapping[str, CacheRule], spec: Json, problem: str
) -> None:
    async with shop(rules, **spec) as place:
        assert await place.stock() == "1"
        assert await place.stock() == "2"
        assert (await place.run("buy"))["content"] != (await place.run("buy"))["content"]
        status = place.app.gateway.servers.status(ME, "shop")
        assert status is not None
        (told,) = status.override_problems
        assert problem in told


async def test_explain_says_for_how_long_and_for_whom() -> None:
    async with shop() as place:
        told = await place.app.gateway.manage.visibility.explain(ME, "shop:stock")
        (stage,) = [stage for stage in told["stages"] if stage["stage"] == "cache"]
        assert stage["reason"] == "Results are cached for 60 s, for the same caller."


async def test_a_call_that_a_person_approves_is_made() -> None:
    guard = GuardTable(tools=("shop:stock",), approver="user")
    async with shop(settings=Settings(guard=(guard,))) as place:
        gateway = place.app.gateway
        for answer in ("1", "2"):
            params = {"name": "tool_execute", "arguments": {"toolKey": "shop:stock"}}
            await gateway.call(ME, params, None)
            (waiting,) = await gateway.approvals.search(ME, state="waiting")
            await gateway.approvals.decide(ME, waiting.approval_id, approve=True, via="console")
            result = await gateway.call(ME, params, None)
            assert result["content"][0]["text"] == answer


async def test_the_room_is_limited_and_the_oldest_goes_first() -> None:
    settings = Settings(results=ResultSettings(cache_mb=1))
    async with shop(settings=settings) as place:
        requests = place.upstream.requests
        place.upstream.tools["stock"] = lambda params: text_result("x" * 120_000)
        for number in range(20):
            await place.stock(n=number)
        before = len(requests)
        await place.stock(n=19)
        await place.stock(n=12)
        assert len(requests) == before
        await place.stock(n=11)
        assert len(requests) == before + 1
        place.upstream.tools["stock"] = lambda params: text_result("x" * 200_000)
        await place.stock(n=100)
        await place.stock(n=100)
        assert len(requests) == before + 3


def test_the_settings_of_a_tool_are_read_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "toolgate.toml"
    text = '[server.a]\nurl = "https://a.example.com/mcp"\n[server.a.tools.t]\ncache_s = 5\n'
    file.write_text(text, encoding="utf-8")
    (spec,) = load(file).servers
    assert spec.tool_caches == {"t": CacheRule(ttl_s=5)}
    per_user = '\n[server.a.credentials]\ntype = "oauth"\nper = "user"\n'
    file.write_text(f'{text}cache_for = "all"\n{per_user}', encoding="utf-8")
    with pytest.raises(SettingError, match=r"cache_for of tool 't' is 'all'.*Allowed: caller"):
        load(file)
