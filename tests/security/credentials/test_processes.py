"""Variables of users, each with a process of their own; secrets in arguments and addresses."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.security.credentials.login_gateway import (
    caller,
    gateway,
    result_text,
    spec_of,
    until_listed,
    whoami,
)
from toolgate.errors import ForbiddenError, LoginNeededError, RpcError, ServerDownError
from toolgate.settings import Settings
from toolgate.testing.authorization import ProtectedServer
from toolgate.types import CredentialSpec, ServerSpec

SCRIPT = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "files", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "key", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        text = f"{os.environ.get('API_KEY')} in {os.getpid()}"
        answer["result"] = {"content": [{"type": "text", "text": text}]}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
"""


FAILING = SCRIPT.replace(
    'answer["result"] = {"content": [{"type": "text", "text": text}]}',
    "print(sys.argv, file=sys.stderr, flush=True)\n"
    '        answer["error"] = {"code": -32603, "message": str(sys.argv), "data": sys.argv}',
)
SECRET = "plain-words-only"


async def test_each_user_has_a_process_with_variables_of_their_own(tmp_path: Path) -> None:
    script = tmp_path / "files.py"
    script.write_text(SCRIPT, encoding="utf-8")
    spec = ServerSpec(
        name="notes",
        kind="stdio",
        options={"command": sys.executable, "args": [str(script)], "env": {}},
        credentials=CredentialSpec(per="user", env=("API_KEY",)),
        era="handshake",
    )
    async with gateway(spec, settings=Settings(auth="required")) as app:
        anna, ben = caller("anna", roles=("member",)), caller("ben", roles=("member",))
        await app.logins.give(anna, "notes", headers={}, env={"API_KEY": "of anna"})
        await until_listed(app, anna)
        first = result_text(await app.gateway.calls.execute(anna, "notes:key", {}))
        with pytest.raises(LoginNeededError, match="credentials set notes"):
            await app.gateway.calls.execute(ben, "notes:key", {})
        await app.logins.give(ben, "notes", headers={}, env={"API_KEY": "of ben"})
        second = result_text(await app.gateway.calls.execute(ben, "notes:key", {}))
        assert (first.split(" in ")[0], second.split(" in ")[0]) == ("of anna", "of ben")
        assert first.split(" in ")[1] != second.split(" in ")[1]
        await app.logins.give(anna, "notes", headers={}, env={"API_KEY": "another"})
        third = result_text(await app.gateway.calls.execute(anna, "notes:key", {}))
        assert third.startswith("another in ")


async def test_a_secret_in_the_arguments_comes_from_the_store_and_is_masked(
    tmp_path: Path,
) -> None:
    script = tmp_path / "files.py"
    text = SCRIPT.replace("os.environ.get('API_KEY')", "sys.argv[2] + '/' + sys.argv[2][::-1]")
    script.write_text(text.replace("}]}\n    else", "}], 'isError': True}\n    else"), "utf-8")
    spec = ServerSpec(
        name="notes",
        kind="stdio",
        options={"command": sys.executable, "args": [str(script), "--key", "${secret:KEY}"]},
        era="handshake",
    )
    async with gateway(spec, settings=Settings(auth="required")) as app:
        admin, anna = caller("admin", roles=("admin",)), caller("anna", roles=("member",))
        with pytest.raises(ServerDownError, match="credentials set notes --secret KEY"):
            await app.gateway.calls.execute(admin, "notes:key", {})
        with pytest.raises(ForbiddenError):
            await app.logins.give(anna, "notes", headers={}, env={}, secrets={"KEY": "of anna"})
        await app.logins.give(admin, "notes", headers={}, env={}, secrets={"KEY": "opaque-key"})
        await until_listed(app, admin)
        answer = result_text(await app.gateway.calls.execute(admin, "notes:key", {}))
        assert answer.startswith("[secret masked]/yek-euqapo in ")


async def test_a_secret_in_an_address_is_not_sent_to_another(notes: ProtectedServer) -> None:
    spec = spec_of(notes)
    address = f"{notes.url}?key=${{secret:KEY}}"
    here = replace(spec, options={"url": address, "headers": {}})
    elsewhere = replace(spec, options={**here.options, "url": address.replace("//", "//x.")})
    async with gateway(here) as app:
        given = await app.logins.give(caller(), "notes", headers={}, env={}, secrets={"KEY": "k1"})
        assert (given.form, given.names) == ("secrets", ("KEY",))
        provider = app.logins._desk
        assert (await provider.completed(here)).options["url"] == f"{notes.url}?key=k1"
        with pytest.raises(LoginNeededError, match="needs the secret KEY"):
            await provider.completed(elsewhere)
        assert await app.logins.remove(caller(), "notes", kind="login") is False
        assert await app.logins.remove(caller(), "notes") is True
        assert await app.logins.list(caller()) == []


async def test_a_new_secret_of_an_address_is_used_and_a_removed_header_is_not(
    notes: ProtectedServer,
) -> None:
    notes.accepts |= {"Key first", "Key second"}
    headers = {"authorization": "Key ${secret:KEY}"}
    spec = replace(spec_of(notes), options={"url": notes.url, "headers": headers})
    async with gateway(spec) as app:
        for key in ("first", "second"):
            given = {"x-region": key} if key == "first" else {}
            await app.logins.give(caller(), "notes", headers=given, env={}, secrets={"KEY": key})
            await until_listed(app)
            assert await whoami(app) == f"Key {key}"
            assert notes.requests[-1][0]["x-region"] == "first"
        await app.logins.remove(caller(), "notes", kind="login")
        assert await whoami(app) == "Key second"
        assert "x-region" not in notes.requests[-1][0]


async def test_a_new_shared_secret_reaches_the_processes_of_all_users(tmp_path: Path) -> None:
    script = tmp_path / "files.py"
    script.write_text(SCRIPT.replace("os.environ.get('API_KEY')", "sys.argv[1]"), "utf-8")
    spec = ServerSpec(
        name="notes",
        kind="stdio",
        options={"command": sys.executable, "args": [str(script), "${secret:KEY}"], "env": {}},
        credentials=CredentialSpec(per="user"),
        era="handshake",
    )
    async with gateway(spec, settings=Settings(auth="required")) as app:
        admin, anna = caller("admin", roles=("admin",)), caller("anna", roles=("member",))
        for key in ("shared-first", "shared-second"):
            await app.logins.give(admin, "notes", headers={}, env={}, secrets={"KEY": key})
            await until_listed(app, anna)
            answer = result_text(await app.gateway.calls.execute(anna, "notes:key", {}))
            assert answer.startswith(key)
        assert await app.logins.remove(anna, "notes") is False
        assert await app.logins.remove(admin, "notes", kind="secrets") is True
        with pytest.raises(LoginNeededError, match="Ask the administrator of the gateway to run"):
            await app.gateway.calls.execute(anna, "notes:key", {})


async def test_secrets_given_at_the_same_time_are_all_kept(notes: ProtectedServer) -> None:
    names = {f"KEY_{number}" for number in range(8)}
    async with gateway(spec_of(notes)) as app:
        async with anyio.create_task_group() as tasks:
            for name in names:
                give = partial(app.logins.give, headers={}, env={}, secrets={name: "value"})
                tasks.start_soon(give, caller(), "notes")
        [stored] = await app.logins.list(caller())
        assert set(stored.names) == names


@pytest.mark.parametrize("place", ["argument", "header", "path", "old"])
async def test_a_filled_secret_is_masked_wherever_it_was(tmp_path: Path, place: str) -> None:
    script = tmp_path / "files.py"
    script.write_text(FAILING, "utf-8")
    args = {
        "argument": ["${secret:KEY}"],
        "header": ["--header", "Authorization: Bearer ${secret:KEY}"],
        "path": ["http://127.0.0.1:9/${secret:KEY}/mcp"],
        "old": ["${secret:KEY}"],
    }[place]
    spec = ServerSpec(
        name="notes",
        kind="stdio",
        options={"command": sys.executable, "args": [str(script), *args], "env": {}},
        era="handshake",
    )
    async with gateway(spec) as app:
        await app.logins.give(caller(), "notes", headers={}, env={}, secrets={"KEY": SECRET})
        await until_listed(app)
        with pytest.raises(RpcError) as failed:
            await app.gateway.calls.execute(caller(), "notes:key", {})
        assert "[secret masked]" in str(failed.value)
        assert SECRET not in f"{failed.value} {failed.value.data}"
        if place == "old":
            given = {"KEY": "plain-other-words"}
            await app.logins.give(caller(), "notes", headers={}, env={}, secrets=given)
            with pytest.raises(RpcError):
                await app.gateway.calls.execute(caller(), "notes:key", {})
        [status] = app.gateway.servers.statuses(caller())
        assert "[secret masked]" in str(status.stderr_tail)
        assert SECRET not in str(status)
