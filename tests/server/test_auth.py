"""`auth = "required"` through real doors: 401, 403, sessions, streams, revocation, REST."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
import orjson
import pytest

from tests.limits import HANG_S
from tests.server.http_gateway import INITIALIZE, headers_for, modern, post
from tests.serving import serving
from toolgate.app.app import App
from toolgate.settings import LimitSettings, PermissionTable, ProjectTable, Settings
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

LOCAL_KEY = "k" * 43
ME = Caller.local()
SETTINGS = Settings(
    auth="required",
    project={"web": ProjectTable(servers=("notes",)), "data": ProjectTable(servers=("files",))},
    permission=(PermissionTable(to=("role:dev",), allow=("*",), source="toolgate.toml, line 4"),),
)


@dataclass
class Place:
    url: str
    app: App

    async def token(self, name: str, **wanted: Any) -> str:
        return (await self.app.gateway.admin.create_token(ME, name, **wanted)).secret


def upstream(name: str) -> FakeUpstream:
    return FakeUpstream(
        {f"{name}_get": lambda params: text_result(str(params.get("_meta")))},
        resources=({"uri": f"mem://{name}", "name": name},),
    )


@asynccontextmanager
async def shared(settings: Settings = SETTINGS) -> AsyncIterator[Place]:
    """A shared gateway on a free port, over a store of its own."""
    servers = {name: upstream(name) for name in ("notes", "files", "time")}
    async with memory_app(servers, settings) as app, serving(app, key=LOCAL_KEY) as url:
        yield Place(url=url, app=app)


LIST = modern("tools/list")


def bearer(token: str, message: Json = LIST, /, **further: str) -> dict[str, str]:
    return {**headers_for(message), "Authorization": f"Bearer {token}", **further}


def named(answer: Any) -> list[str]:
    return [tool["name"] for tool in answer.result["tools"]]


async def rest(
    url: str, method: str, path: str, token: str = "", body: Json | None = None, /, **headers: str
) -> tuple[int, Any, Any]:
    sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **headers}
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, f"{url}/api/v1/{path}", json=body, headers=sent) as response,
    ):
        return response.status, orjson.loads(await response.read()), response.headers


async def test_without_a_token_the_answer_is_401_at_once_and_says_how_to_log_in() -> None:
    """RFC 9728; some clients wait for ever for anything less."""
    async with shared() as place:
        with anyio.fail_after(HANG_S):
            for message in (LIST, INITIALIZE, modern("tools/call", {"name": "notes__notes_get"})):
                answer = await post(
                    place.url, message, headers_for(message) if message is not INITIALIZE else None
                )
                challenge = answer.headers["WWW-Authenticate"]
                address = f"{place.url}/.well-known/oauth-protected-resource/mcp"

                assert answer.status == 401
                assert answer.error["code"] == -31001
                assert answer.only["id"] == message["id"]
                assert answer.error["data"]["code"] == "credential"
                assert "toolgate tokens create" in answer.error["message"]
                assert challenge == f'Bearer realm="toolgate", resource_metadata="{address}"'
                assert answer.headers["Cache-Control"] == "no-store"
            async with aiohttp.ClientSession() as http, http.get(address) as response:
                metadata = await response.json()
    assert metadata["resource"] == f"{place.url}/mcp"
    assert metadata["bearer_methods_supported"] == ["header"]


async def test_health_needs_no_token_and_the_rest_does() -> None:
    async with shared() as place, aiohttp.ClientSession() as http:
        for path, status in (
            ("healthz", 200),
            ("readyz", 200),
            ("mcp", 401),
            ("api/v1/tools", 401),
        ):
            async with http.get(f"{place.url}/{path}") as response:
                assert response.status == status, path
                assert response.headers["X-Content-Type-Options"] == "nosniff"
        async with http.delete(f"{place.url}/mcp") as response:
            assert response.status == 401


async def test_a_wrong_token_is_named_as_such_and_never_repeated() -> None:
    async with shared() as place:
        token = await place.token("anna")
        answer = await post(place.url, LIST, bearer(token[:-3] + "AAA"))

    assert answer.status == 401
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    assert token[12:-3] not in answer.body.decode() + answer.headers["WWW-Authenticate"]


async def test_a_token_in_the_address_is_not_read() -> None:
    async with shared() as place, aiohttp.ClientSession() as http:
        token = await place.token("anna", roles=["member"])
        async with http.post(
            f"{place.url}/mcp?access_token={token}", json=LIST, headers=headers_for(LIST)
        ) as response:
            body = await response.json()

    assert response.status == 401
    assert "addresses stand in logs" in body["error"]["message"]


async def test_a_token_sees_the_tools_of_its_project_and_shared_ones() -> None:
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        root = await place.token("root", projects=["*"], roles=["dev"])
        bare = await place.token("bare")
        seen = {
            "anna": named(await post(place.url, LIST, bearer(anna))),
            "root": named(await post(place.url, LIST, bearer(root))),
            "data": named(
                await post(place.url, LIST, bearer(root, **{"X-Toolgate-Project": "data"}))
            ),
            "bare": named(await post(place.url, LIST, bearer(bare))),
        }

    assert seen == {
        "anna": ["notes__notes_get", "time__time_get"],
        "root": ["time__time_get"],
        "data": ["files__files_get", "time__time_get"],
        "bare": [],
    }


@pytest.mark.parametrize("way", ["path", "header", "meta"])
async def test_a_project_that_is_not_the_tokens_is_403_however_it_is_named(way: str) -> None:
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        texts: list[str] = []
        for project in ("data", "nowhere"):
            message = modern(
                "tools/list", {"_meta": {"projectId": project}} if way == "meta" else {}
            )
            headers = bearer(anna, **({"X-Toolgate-Project": project} if way == "header" else {}))
            path = f"/mcp/p/{project}" if way == "path" else "/mcp"
            async with (
                aiohttp.ClientSession() as http,
                http.post(place.url + path, json=message, headers=headers) as response,
            ):
                body = await response.json()
            assert response.status == 403
            assert body["error"]["code"] == -31003
            texts.append(body["error"]["message"].replace(project, "P"))

    assert texts[0] == texts[1]


async def test_a_token_in_meta_is_as_good_and_goes_no_further() -> None:
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        meta = {"_meta": {"token": anna, "projectId": "UNASSIGNED", "mine": 1}}
        listed = await post(place.url, modern("tools/list", meta))
        call = modern("tools/call", {"name": "notes__notes_get", "arguments": {}, **meta})
        called = await post(place.url, call)

    assert named(listed) == ["notes__notes_get", "time__time_get"]
    said = called.result["content"][0]["text"]
    assert "mine" in said
    assert anna not in said
    assert "projectId" not in said


async def test_a_forbidden_and_an_unknown_tool_look_the_same() -> None:
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        answers: list[tuple[int, Any]] = []
        for name in ("files__files_get", "tool_execute"):
            inner = {"toolKey": "files:files_get"} if name == "tool_execute" else {}
            message = modern("tools/call", {"name": name, "arguments": inner})
            (spec,) = [one for one in place.app._catalog.specs if one.name == "files"]
            for _ in ("it is there", "it is gone"):
                answer = await post(place.url, message, bearer(anna, message))
                said = answer.only.get("error") or answer.result
                said.get("data", {}).pop("requestId", None)
                answers.append((answer.status, said))
                if len(answers) % 2:
                    await place.app._catalog.remove("files")
            await place.app._catalog.add(spec)
            await place.app.gateway.servers.wait_ready(HANG_S)

    assert answers[0] == answers[1]
    assert answers[2] == answers[3]


async def test_a_revoked_token_is_refused_on_the_next_request_and_its_streams_end() -> None:
    async with shared() as place, aiohttp.ClientSession() as http:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        ben = await place.token("ben", projects=["web"], roles=["member"])
        listen = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        streams = [
            await http.post(f"{place.url}/mcp", json=listen, headers=bearer(token, listen))
            for token in (anna, ben)
        ]
        for stream in streams:
            assert stream.status == 200
            await stream.content.readany()  # it is acknowledged

        await place.app.gateway.admin.revoke_token(ME, "anna")

        assert (await post(place.url, LIST, bearer(anna))).status == 401
        with anyio.fail_after(HANG_S):
            with contextlib.suppress(aiohttp.ClientError):
                while await streams[0].content.readany():
                    pass
        assert (await post(place.url, LIST, bearer(ben))).status == 200
        assert not streams[1].content.at_eof()
        for stream in streams:
            stream.close()


async def test_a_revocation_by_another_process_is_seen_within_a_second() -> None:
    """It looks at the store, which the other one has written."""
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        (row,) = await place.app.store.access.tokens()
        revoked = type(row)(**{**vars(row), "revoked_at": "2026-01-01T00:00:00.000Z"})
        await place.app.store.access.save_token(revoked)

        with anyio.fail_after(HANG_S):
            while (await post(place.url, LIST, bearer(anna))).status != 401:
                await anyio.sleep(0.05)


async def test_a_session_answers_only_the_caller_that_opened_it() -> None:
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        ben = await place.token("ben", projects=["web"], roles=["member"])
        plain = {"Accept": "application/json, text/event-stream"}
        opened = await post(place.url, INITIALIZE, {**plain, "Authorization": f"Bearer {anna}"})
        session = {**plain, "Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        listing = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}
        statuses = {
            name: (
                await post(
                    place.url,
                    listing,
                    {**session, **({"Authorization": f"Bearer {token}"} if token else {})},
                )
            ).status
            for name, token in (("anna", anna), ("ben", ben), ("nobody", ""))
        }
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        told = await post(place.url, notice, session)
        async with (
            aiohttp.ClientSession() as http,
            http.delete(
                f"{place.url}/mcp", headers={**session, "Authorization": f"Bearer {ben}"}
            ) as response,
        ):
            assert response.status == 404

    assert statuses == {"anna": 200, "ben": 404, "nobody": 401}
    assert told.status == 202  # a client that shows its token in `_meta` has none for a notice


async def test_changes_of_what_may_not_be_read_are_not_told() -> None:
    async with shared() as place, aiohttp.ClientSession() as http:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        wanted = {"resourceSubscriptions": ["mem://notes", "mem://files"]}
        listen = modern("subscriptions/listen", {"notifications": wanted})
        async with http.post(
            f"{place.url}/mcp", json=listen, headers=bearer(anna, listen)
        ) as stream:
            first = await stream.content.readany()
            assert b"acknowledged" in first
            assert b"mem://files" not in first
            for uri in ("mem://files", "mem://notes"):
                place.app.gateway.changes.resource_updated(uri.removeprefix("mem://"), uri)
            told = b""
            with anyio.fail_after(HANG_S):
                while b"mem://notes" not in told:
                    told += await stream.content.readany()
        assert b"mem://files" not in told


async def test_commands_of_the_same_user_show_the_key_of_the_run_file() -> None:
    async with shared() as place:
        key = {"X-Toolgate-Key": LOCAL_KEY}
        status, body, _ = await rest(place.url, "GET", "servers", **key)
        wrong, _, _ = await rest(place.url, "GET", "servers", **{"X-Toolgate-Key": "x" * 43})
        on_mcp = await post(place.url, LIST, bearer(LOCAL_KEY))

    assert status == 200
    assert {one["name"]: one["projects"] for one in body["servers"]} == {
        "notes": ["web"],
        "files": ["data"],
        "time": [],
    }
    assert wrong == 401
    assert on_mcp.status == 401  # a relay has to show whose client it is


async def test_managing_needs_the_right_and_works_over_rest() -> None:
    async with shared() as place:
        root = await place.token("root", projects=["*"], roles=["admin"])
        anna = await place.token("anna", projects=["web"], roles=["member"])
        url = place.url
        for method, path in (
            ("GET", "tokens"),
            ("POST", "tokens"),
            ("POST", "tokens/anna/revoke"),
            ("GET", "projects"),
            ("GET", "permissions"),
            ("GET", "guards"),
            ("POST", "guards"),
            ("DELETE", "guards/x"),
            ("POST", "explain"),
            ("GET", "packs"),
            ("GET", "index"),
            ("GET", "optimization"),
            ("POST", "servers/notes/disable"),
        ):
            body = {"tool": "x", "name": "x"} if method == "POST" else None
            if path.endswith(("revoke", "disable")):
                body = {}
            if path == "explain":
                body = {"tool": "x"}
            if path == "tokens" and method == "POST":
                body = {"name": "x"}
            status, said, _ = await rest(url, method, path, anna, body)
            assert (status, said["error"]["code"]) == (403, "forbidden"), path

        status, made, _ = await rest(
            url, "POST", "tokens", root, {"name": "carl", "projects": ["data"], "allow": ["files"]}
        )
        assert status == 201
        assert made["token"].startswith(made["prefix"])
        _, listed, _ = await rest(url, "GET", "tokens", root)
        carl = next(one for one in listed["tokens"] if one["name"] == "carl")
        assert "token" not in carl
        assert made["token"] not in orjson.dumps(listed).decode()
        seen = named(await post(url, LIST, bearer(made["token"])))
        assert seen == ["files__files_get"]

        explained = {"tool": "notes:notes_get", "token": "carl"}
        _, why, _ = await rest(url, "POST", "explain", root, explained)
        stages = {one["stage"]: one for one in why["stages"]}
        assert why["visible"] is False
        assert stages["token"]["passed"]
        assert "belongs to project 'web'" in stages["project"]["reason"]
        assert not stages["rules"]["passed"]
        _, why, _ = await rest(
            url, "POST", "explain", root, {**explained, "tool": "files:files_get", "query": "get"}
        )
        assert why["visible"] is True
        assert "allow server=files to token:carl [row " in str(why["stages"])

        status, rotated, _ = await rest(url, "POST", "tokens/carl/rotate", root, {})
        assert status == 200
        assert (await post(url, LIST, bearer(made["token"]))).status == 401
        assert (await post(url, LIST, bearer(rotated["token"]))).status == 200
        await rest(url, "DELETE", "tokens/carl", root)
        _, listed, _ = await rest(url, "GET", "permissions", root)
        assert all(one["to"] != "token:carl" for one in listed["permissions"])


async def test_a_rule_holds_from_the_next_request() -> None:
    async with shared() as place:
        root = await place.token("root", projects=["*"], roles=["admin"])
        anna = await place.token("anna")
        assert named(await post(place.url, LIST, bearer(anna))) == []
        _, made, _ = await rest(
            place.url,
            "POST",
            "permissions",
            root,
            {"effect": "allow", "patterns": ["time:*"], "to": ["token:anna"]},
        )
        assert named(await post(place.url, LIST, bearer(anna))) == ["time__time_get"]
        await rest(place.url, "DELETE", f"permissions/{made['permissions'][0]['id']}", root)
        assert named(await post(place.url, LIST, bearer(anna))) == []


async def test_a_guard_made_over_rest_holds_from_the_next_call() -> None:
    """Of tool and project; one that is none is refused, and nothing is kept."""
    async with shared() as place:
        root = await place.token("root", projects=["*"], roles=["admin"])
        anna = await place.token("anna", projects=["web"], roles=["member"])
        wanted = {"tools": ["notes:*"], "projects": ["web"], "deny": {"*": ["^/etc/"]}}
        for wrong in (
            {"tools": ["*"]},
            {**wanted, "projects": ["nowhere"]},
            {**wanted, "deny": {"*": ["(?=x)"]}},
            {**wanted, "approver": "nobody"},
            {**wanted, "source": "me"},
        ):
            status, said, _ = await rest(place.url, "POST", "guards", root, wrong)
            assert (status, said["error"]["code"]) == (400, "argument"), wrong
        status, made, _ = await rest(place.url, "POST", "guards", root, wanted)
        assert status == 201
        call = {"toolKey": "notes:notes_get", "arguments": {"path": "/etc/passwd"}}
        status, said, _ = await rest(place.url, "POST", "execute", anna, call)
        assert (status, said["error"]["code"]) == (403, "guard")
        _, listed, _ = await rest(place.url, "GET", "guards", root)
        assert listed["guards"] == [made]
        assert made["source"] == f"the store, guard {made['id']}"
        assert (await rest(place.url, "DELETE", f"guards/{made['id']}", root))[0] == 200
        assert (await rest(place.url, "DELETE", f"guards/{made['id']}", root))[0] == 400
        assert (await rest(place.url, "POST", "execute", anna, call))[0] == 200


async def test_too_many_wrong_tokens_are_answered_with_a_time_to_wait() -> None:
    async with shared() as place:
        wrong = [f"tg_{number:08x}_{'A' * 43}" for number in range(11)]
        for token in wrong[:-1]:
            await post(place.url, LIST, bearer(token))
        answer = await post(place.url, LIST, bearer(wrong[-1]))
        valid = await post(place.url, LIST, bearer(await place.token("dev", projects=["web"])))

    assert valid.status == 200, "a valid token works while others at its address guess"
    assert answer.status == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 60


async def test_limits_are_answered_with_a_time_to_wait() -> None:
    settings = Settings(
        auth="required", limits=LimitSettings(calls_per_minute=1), permission=SETTINGS.permission
    )
    async with shared(settings) as place:
        dev = await place.token("dev", roles=["dev"])
        wanted = {"toolKey": "time:time_get", "arguments": {}}
        first, _, _ = await rest(place.url, "POST", "execute", dev, wanted)
        second, said, headers = await rest(place.url, "POST", "execute", dev, wanted)
        call = modern("tools/call", {"name": "time__time_get", "arguments": {}})
        by_model = await post(place.url, call, bearer(dev, call))

    assert (first, second) == (200, 429)
    assert said["error"]["code"] == "limit"
    assert 0 < int(headers["Retry-After"]) <= 60
    assert by_model.result["isError"] is True
    assert "Try again in" in by_model.result["content"][0]["text"]


async def test_me_says_who_one_is_taken_for() -> None:
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"], user="anna@x.org")
        _, said, _ = await rest(place.url, "GET", "me", anna)

    assert (said["token"], said["user"], said["project"]) == ("anna", "anna@x.org", "web")


async def test_locally_nothing_is_asked_and_projects_are_chosen_all_the_same() -> None:
    settings = Settings(project=SETTINGS.project)
    async with shared(settings) as place:
        plain = await post(place.url, LIST)
        ignored = await post(place.url, LIST, bearer("whatever"))
        in_web = await post(place.url, modern("tools/list", {"_meta": {"projectId": "web"}}))

    assert named(plain) == named(ignored) == ["time__time_get"]
    assert named(in_web) == ["notes__notes_get", "time__time_get"]


async def test_a_relay_opens_a_session_before_its_client_has_shown_a_token() -> None:
    """Over stdio a client shows it in `_meta`, from the first request that asks for something."""
    async with shared() as place:
        anna = await place.token("anna", projects=["web"], roles=["member"])
        plain = {
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {LOCAL_KEY}",
        }
        opened = await post(place.url, INITIALIZE, plain)
        session = {**plain, "Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        listing = {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {}}
        without = await post(place.url, listing, session)
        shown = await post(place.url, {**listing, "params": {"_meta": {"token": anna}}}, session)
        by_environment = await post(place.url, listing, {**session, "X-Toolgate-Token": anna})
        stolen = await post(place.url, listing, {**session, "Authorization": f"Bearer {anna}"})

    assert opened.status == 200
    assert "A token is required" in opened.result["instructions"]
    assert without.status == 401
    assert named(shown) == named(by_environment) == ["notes__notes_get", "time__time_get"]
    assert stolen.status == 404
