"""Variables of each user: a process for each, which sees its own and nobody else's."""

import sys
from pathlib import Path

import pytest

from tests.security.credentials.login_gateway import caller, gateway, result_text, until_listed
from toolgate.errors import LoginNeededError
from toolgate.settings import Settings
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
