"""Calls that wait for a person: parked, decided once, run once, whatever happens in between."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.limits import HANG_S
from toolgate.app.app import App
from toolgate.base.ids import utc_now
from toolgate.errors import (
    ApprovalError,
    ArgumentError,
    DecidedError,
    ForbiddenError,
    UnknownApprovalError,
)
from toolgate.settings import ApprovalSettings, GuardTable, Settings
from toolgate.store import ApprovalFilter, AuditFilter, make_store
from toolgate.testing import FakePeer, FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Identity, Json

ASK = GuardTable(hint="destructive", approver="user", reason="It cannot be undone.")
ACCEPT = {"action": "accept", "content": {"approve": True}}


@dataclass
class Place:
    """A gateway with the tool `shop:refund`, which a person has to approve."""

    app: App
    ran: list[Json] = field(default_factory=list[Json])

    async def call(self, caller: Caller | None = None, peer: Any = None, **arguments: Any) -> Json:
        params = {"name": "shop__refund", "arguments": arguments}
        return await self.app.gateway.call(caller or Caller.local(), params, peer)

    async def parked(self, caller: Caller | None = None, **arguments: Any) -> str:
        """The id of the approval that a call waits for."""
        result = await self.call(caller, **arguments)
        assert result["isError"] is True
        about = result["_meta"]["toolgate/approval"]
        assert about["state"] == "waiting"
        return str(about["id"])

    async def decide(self, approval_id: str, caller: Caller | None = None, **more: Any) -> Any:
        approvals = self.app.gateway.approvals
        code = self.app.gateway.approvals._approvals.codes.code_of(approval_id)
        wanted = {"approve": True, "via": "rest", "code": code, **more}
        return await approvals.decide(caller or Caller.local(), approval_id, **wanted)

    async def steps(self) -> list[tuple[str, str, str]]:
        """What the audit says of calls and approvals, in order."""
        await self.app.recorder.flush()
        records = await self.app.store.audit.select(AuditFilter(oldest_first=True))
        return [
            (record.action, record.phase, str(record.detail.get("state", record.status)))
            for record in records
            if record.action in {"approval", "call"}
        ]


@asynccontextmanager
async def shop(
    *tables: GuardTable, store_url: str = "sqlite://", tool: Any = None, **settings: Any
) -> AsyncGenerator[Place]:
    place: Place

    def refund(params: Json) -> Json:
        place.ran.append(params["arguments"])
        return text_result("refunded")

    upstream = FakeUpstream(
        {"refund": tool or refund},
        definitions={
            "refund": {
                "inputSchema": {"type": "object", "properties": {"order": {"type": "integer"}}}
            }
        },
    )
    wanted = Settings(guard=tables or (ASK,), **settings)
    async with memory_app({"shop": upstream}, wanted, store_url=store_url) as app:
        place = Place(app)
        yield place


def somebody(name: str, *, project: str = "default", roles: tuple[str, ...] = ()) -> Caller:
    identity = Identity(
        caller_id=f"token:{name}", kind="token", token=name, projects=("*",), roles=roles
    )
    return Caller(caller_id=identity.caller_id, project_id=project, identity=identity)


async def test_a_call_runs_once_when_it_is_made_again_after_somebody_said_yes() -> None:
    async with shop() as place:
        approval_id = await place.parked(order=1)
        assert await place.parked(order=1) == approval_id
        assert place.ran == []

        decided = await place.decide(approval_id, comment="fine")
        assert (decided.state, decided.decided_by, decided.comment) == ("approved", "local", "fine")
        assert (await place.call(order=1))["content"][0]["text"] == "refunded"
        assert place.ran == [{"order": 1}]

        assert await place.parked(order=1) != approval_id
        assert place.ran == [{"order": 1}]
        assert await place.steps() == [
            ("approval", "outcome", "waiting"),
            ("call", "outcome", "waiting"),
            ("call", "outcome", "waiting"),
            ("approval", "outcome", "approved"),
            ("call", "intent", "ok"),
            ("approval", "outcome", "used"),
            ("call", "outcome", "ok"),
            ("approval", "outcome", "waiting"),
            ("call", "outcome", "waiting"),
        ]


async def test_what_the_model_hears_names_the_approval_and_what_to_do() -> None:
    async with shop() as place:
        result = await place.call(order=1)
        text = result["content"][0]["text"]
        approval_id = result["_meta"]["toolgate/approval"]["id"]
        assert "It cannot be undone." in text
        assert "the Approvals page of Toolgate's console" in text
        assert "make it again with the same arguments: it runs once" in text
        assert "toolgate " not in text, "a model with a shell would run it"
        with pytest.raises(ApprovalError) as caught:
            await place.app.gateway.calls.execute(Caller.local(), "shop:refund", {"order": 1})
        assert (caught.value.approval_id, caught.value.state) == (approval_id, "waiting")
        assert caught.value.retryable


async def test_a_call_that_was_rejected_does_not_run_and_says_why() -> None:
    async with shop() as place:
        await place.decide(await place.parked(order=1), approve=False, comment="Not this one.")
        result = await place.call(order=1)
        assert 'They said: "Not this one." Do not' in result["content"][0]["text"]
        assert result["_meta"]["toolgate/approval"]["state"] == "rejected"
        assert place.ran == []


async def test_an_approval_holds_for_one_caller_project_and_set_of_arguments() -> None:
    async with shop() as place:
        anna, ben = somebody("anna"), somebody("ben")
        approval_id = await place.parked(anna, order=1, note="x")
        await place.decide(approval_id)
        assert await place.parked(ben, order=1, note="x") != approval_id
        assert await place.parked(anna, order=2, note="x") != approval_id
        assert await place.parked(anna, order="1", note="x") != approval_id
        assert place.ran == []
        await place.call(anna, note="x", order=1)
        assert place.ran == [{"note": "x", "order": 1}]


async def test_a_tool_that_has_changed_since_needs_a_new_approval() -> None:
    async with shop() as place:
        await place.decide(await place.parked(order=1))
        upstream: Any = place.app._catalog.specs[0].options["target"]
        upstream.definitions["refund"] = {
            "description": "Refunds all orders.", "inputSchema": {"type": "object"}
        }  # fmt: skip
        listed = anyio.Event()
        place.app.gateway.changes.on_change(lambda _: listed.set())
        await place.app.gateway.manage.servers.restart(Caller.local(), "shop")
        with anyio.fail_after(HANG_S):
            await listed.wait()
        await place.parked(order=1)
        assert place.ran == []


async def test_of_a_hundred_decisions_one_counts_and_of_a_hundred_calls_one_runs() -> None:
    async with shop() as place:
        approval_id = await place.parked(order=1)
        said: list[str] = []

        async def decide(number: int) -> None:
            try:
                await place.decide(approval_id, approve=number % 2 == 0)
                said.append("decided")
            except DecidedError:
                said.append("too late")

        async with anyio.create_task_group() as tasks:
            for number in range(0, 200, 2):
                tasks.start_soon(decide, number)
        assert Counter(said) == {"decided": 1, "too late": 99}

        ended: list[bool] = []

        async def call() -> None:
            ended.append((await place.call(order=1)).get("isError", False))

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(call)
        assert Counter(ended) == {False: 1, True: 99}
        assert place.ran == [{"order": 1}]


async def test_an_approval_is_worth_nothing_once_it_has_expired() -> None:
    async with shop(approvals=ApprovalSettings(expire_s=10)) as place:
        waiting, approved = await place.parked(order=1), await place.parked(order=2)
        await place.decide(approved)
        store: Any = place.app.store
        late = utc_now(plus_s=11)
        assert {one.state for one in await store.approvals.select(ApprovalFilter(), now=late)} == {
            "expired"
        }
        assert not await store.approvals.claim(approved, step=0, now=late)
        assert not await store.approvals.decide(
            waiting, state="approved", by="", via="", comment="", edited=None, now=late
        )


async def test_arguments_can_be_changed_by_who_approves() -> None:
    async with shop(ASK, GuardTable(deny={"note": ("^secret",)})) as place:
        approval_id = await place.parked(order=1)
        with pytest.raises(ArgumentError, match="order"):
            await place.decide(approval_id, arguments={"order": "many"})
        await place.decide(approval_id, arguments={"order": 7})
        await place.call(order=1)
        assert place.ran == [{"order": 7}]

        forbidden = await place.parked(order=2)
        await place.decide(forbidden, arguments={"order": 2, "note": "secret"})
        heard = (await place.call(order=2))["content"][0]["text"]
        assert heard.startswith("A guard does not allow the argument 'note'")
        assert place.ran == [{"order": 7}]


async def test_secrets_are_masked_where_people_are_shown_a_call() -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with shop() as place:
        approval_id = await place.parked(order=1, note=f"use {key}")
        shown = await place.app.gateway.approvals.get(Caller.local(), approval_id)
        assert shown.arguments == '{"order": 1, "note": "use [github_token masked]"}'
        await place.decide(approval_id)
        await place.call(order=1, note=f"use {key}")
        assert place.ran == [{"order": 1, "note": f"use {key}"}]


async def test_nobody_may_fill_the_list_of_those_who_decide() -> None:
    async with shop(approvals=ApprovalSettings(max_waiting=3)) as place:
        for order in range(3):
            await place.parked(order=order)
        heard = (await place.call(order=3))["content"][0]["text"]
        assert heard.startswith("3 calls of yours wait for approval already.")
        assert len(await place.app.gateway.approvals.search(Caller.local(), state="waiting")) == 3


# In the client


async def test_a_client_of_the_handshake_era_is_asked_and_its_call_goes_on() -> None:
    async with shop() as place:
        for answer, ran in (
            (ACCEPT, True),
            ({"action": "accept", "content": {}}, True),
            ({"action": "accept", "content": {"approve": False}}, False),
            ({"action": "decline"}, False),
            ({"action": "cancel"}, False),
        ):
            peer = FakePeer(
                era="handshake",
                capabilities={"elicitation": {}},
                answers={"elicitation/create": answer},
            )
            place.ran.clear()
            await place.call(peer=peer, order=1, note=str(answer))
            assert bool(place.ran) is ran
            ((method, asked),) = peer.messages
            assert method == "elicitation/create"
            assert "Run shop:refund with" in asked["message"]
            assert "It cannot be undone." in asked["message"]


async def test_somebody_else_may_decide_while_the_client_is_asked() -> None:
    asked = anyio.Event()

    class Slow(FakePeer):
        async def ask(self, method: str, params: Json) -> Json:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

    async with shop() as place, anyio.create_task_group() as tasks:

        async def decide() -> None:
            await asked.wait()
            (waiting,) = await place.app.gateway.approvals.search(Caller.local(), state="waiting")
            await place.decide(waiting.approval_id)

        tasks.start_soon(decide)
        with anyio.fail_after(HANG_S):
            peer = Slow(era="handshake", capabilities={"elicitation": {}})
            assert "isError" not in await place.call(peer=peer, order=1)


async def test_a_modern_client_is_asked_by_the_result_and_comes_back_once() -> None:
    async with shop() as place:
        peer = FakePeer(era="modern", capabilities={"elicitation": {"form": {}}})
        asked = await place.call(peer=peer, order=1)
        assert asked["resultType"] == "input_required"
        question = asked["inputRequests"]["approval"]
        assert question["method"] == "elicitation/create"

        async def back(order: int, answer: Json, caller: Caller | None = None) -> Json:
            params = {
                "name": "shop__refund",
                "arguments": {"order": order},
                "requestState": asked["requestState"],
                "inputResponses": {"approval": answer},
            }
            return await place.app.gateway.call(caller or Caller.local(), params, peer)

        for other in (await back(2, ACCEPT), await back(1, ACCEPT, somebody("anna"))):
            assert other["isError"] is True
            assert other["_meta"]["toolgate/error"]["code"] == "handle"
        assert place.ran == []
        assert "isError" not in await back(1, ACCEPT)
        assert (await back(1, ACCEPT))["isError"] is True
        assert place.ran == [{"order": 1}]


async def test_who_claims_to_go_on_with_a_call_does_not_get_around_the_question() -> None:
    async with shop() as place:
        for more in ({"inputResponses": {}}, {"requestState": "x"}, {"requestState": None}):
            params = {"name": "shop__refund", "arguments": {"order": 1}, **more}
            result = await place.app.gateway.call(Caller.local(), params, None)
            assert result["isError"] is True
        assert place.ran == []


async def test_a_tool_that_asks_something_itself_goes_on_with_the_same_approval() -> None:
    seen: list[Json] = []

    def refund(params: Json) -> Json:
        seen.append({k: params.get(k) for k in ("requestState", "inputResponses")})
        if "inputResponses" not in params:
            asked = {"method": "elicitation/create", "params": {"message": "Sure?"}}
            return {
                "resultType": "input_required",
                "inputRequests": {"q": asked},
                "requestState": "theirs",
            }
        return text_result("refunded")

    async with shop(tool=refund) as place:
        peer = FakePeer(era="modern", capabilities={"elicitation": {"form": {}}})
        await place.decide(await place.parked(order=1))
        asked = await place.call(peer=peer, order=1)
        assert asked["inputRequests"]["q"]["params"] == {"message": "Sure?"}
        assert asked["requestState"] != "theirs"

        async def back(**more: Any) -> Json:
            state = {"requestState": asked["requestState"], "inputResponses": {"q": ACCEPT}}
            params = {"name": "shop__refund", "arguments": {"order": 1}, **state, **more}
            return await place.app.gateway.call(Caller.local(), params, peer)

        assert (await back(requestState="theirs"))["isError"] is True
        assert (await back())["content"][0]["text"] == "refunded"
        assert (await back())["isError"] is True
        assert seen == [
            {"requestState": None, "inputResponses": None},
            {"requestState": "theirs", "inputResponses": {"q": ACCEPT}},
        ]


async def test_a_call_can_wait_for_the_decision() -> None:
    async with (
        shop(approvals=ApprovalSettings(wait_s=HANG_S)) as place,
        anyio.create_task_group() as tasks,
    ):
        parked = anyio.Event()
        place.app.gateway.approvals.on_change(lambda _: parked.set())
        ended: list[Json] = []

        async def call() -> None:
            ended.append(await place.call(order=1))

        tasks.start_soon(call)
        with anyio.fail_after(HANG_S):
            await parked.wait()
            (waiting,) = await place.app.gateway.approvals.search(Caller.local(), state="waiting")
            await place.decide(waiting.approval_id)
            while not ended:
                await anyio.lowlevel.checkpoint()
        assert ended[0]["content"][0]["text"] == "refunded"


# Who may decide


async def test_only_who_may_approve_decides_and_sees_what_is_not_their_own() -> None:
    async with shop(GuardTable(approver="admin"), auth="required") as place:
        approvals, admin = place.app.gateway.approvals, place.app.gateway.admin
        await admin.add_permissions(
            Caller.local(), effect="allow", patterns=["*"], to=["everyone"], hint=""
        )
        await admin.add_permissions(
            Caller.local(), effect="allow", patterns=["right=approve"], to=["token:lead"], hint=""
        )
        anna, ben, lead = somebody("anna"), somebody("ben"), somebody("lead")
        boss = somebody("boss", roles=("admin",))
        elsewhere = replace(lead, project_id="web")
        hers, his = await place.parked(anna, order=1), await place.parked(lead, order=2)

        def ids(found: list[Any]) -> set[str]:
            return {one.approval_id for one in found}

        assert ids(await approvals.search(anna)) == {hers}
        assert ids(await approvals.search(ben)) == set()
        assert ids(await approvals.search(lead)) == {hers, his}
        assert ids(await approvals.search(elsewhere)) == set()
        assert ids(await approvals.search(boss)) == {hers, his}
        with pytest.raises(ForbiddenError):
            await place.decide(hers, anna)
        with pytest.raises(UnknownApprovalError):
            await place.decide(hers, ben)
        with pytest.raises(UnknownApprovalError):
            await place.decide(hers, elsewhere)
        with pytest.raises(ForbiddenError, match="your own calls"):
            await place.decide(his, lead)
        await place.decide(hers, lead)
        await place.decide(his, boss)
        assert "isError" not in await place.call(anna, order=1)


async def test_where_a_manager_has_to_say_yes_the_client_is_not_asked() -> None:
    async with shop(GuardTable(approver="admin")) as place:
        for era in ("handshake", "modern"):
            peer = FakePeer(era=era, capabilities={"elicitation": {}})
            assert (await place.call(peer=peer, order=1))["isError"] is True
            assert peer.messages == []


# Kill -9

KILLED = """
import os, signal, sys
import anyio
sys.path.insert(0, sys.argv[2])
from tests.security.guards.test_approvals import shop

def dies(params):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with shop(store_url=sys.argv[1], tool=dies) as place:
        await place.decide(await place.parked(order=1))
        await place.call(order=1)

anyio.run(main)
"""


async def test_a_kill_in_the_middle_of_an_approved_call_lets_nothing_run_twice(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'toolgate.db'}"
    done = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-c", KILLED, url, str(Path(__file__).parents[3])],
            capture_output=True,
            timeout=HANG_S,
            check=False,
        )
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    store = make_store(url)
    await store.open()
    (left,) = await store.approvals.select(ApprovalFilter(), now=utc_now())
    await store.close()
    assert left.state == "used"
    async with shop(store_url=url) as place:
        await place.parked(order=1)
        assert place.ran == []
