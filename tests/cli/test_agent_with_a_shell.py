"""An agent with a shell wants to run a call that a person has to approve."""

import json
import re
import shlex
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, Serve, run_files
from tests.limits import HANG_S
from tests.server.http_gateway import headers_for, modern

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform == "win32", reason="the run file is private on POSIX"),
]


def request(url: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """What `curl` would get."""
    data = None if body is None else json.dumps(body).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    wanted = urllib.request.Request(url, data, {"content-type": "application/json", **sent})
    try:
        with urllib.request.urlopen(wanted, timeout=HANG_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_an_agent_does_not_approve_its_own_call_and_a_person_does(
    serve: Serve, program: Run, folder: Path
) -> None:
    with (folder / "toolgate.toml").open("a", encoding="utf-8") as file:
        file.write('[[guard]]\ntools = ["small:echo"]\napprover = "user"\n')
    gateway = serve()
    gateway.line("small")
    api = f"{gateway.address}/api/v1"
    execute = {"toolKey": "small:echo", "arguments": {"text": "hi"}}
    called = program("call", "small:echo", "--arg", "text=hi")
    status, refusal = request(f"{api}/execute", execute)
    assert (called.returncode, status) == (4, 403)
    approval = json.loads(refusal)["error"]["approval"]["id"]

    # It runs whatever looks like a command in what it was told.
    told = called.stdout + called.stderr + refusal
    assert f"{gateway.address}/console/approvals" in told
    for command in re.findall(r"toolgate [^\n.\"`]+", told):
        program(*shlex.split(command)[1:])
    # It knows the command line.
    assert program("approvals", "approve", approval).returncode != 0
    shown = program("approvals", "show", approval, "--json").stdout
    listed = program("approvals", "list", "--json").stdout
    assert json.loads(shown)["code"] is None
    assert "code" not in json.loads(listed)[0]
    # It knows the REST API, and reads the key of the local user.
    key = json.loads(run_files()[0].read_text("utf-8"))["key"]
    for body in ({}, {"code": ""}, {"code": "AAAA-AAAA"}, {"code": None}):
        assert request(f"{api}/approvals/{approval}/approve", body, X_Toolgate_Key=key)[0] == 403
    # It fetches the page.
    status, page = request(f"{gateway.address}/console/approvals")
    assert status == 200
    assert approval not in page
    assert "--code" not in page
    assert request(f"{api}/execute", execute)[0] == 403

    # A person opens the page in a browser and reads the code.
    _, page = request(f"{gateway.address}/console/approvals", Sec_Fetch_Site="none")
    code = page.partition(f"approve {approval} --code ")[2][:9]
    approved = program("approvals", "approve", approval, "--code", code.lower())
    assert approved.returncode == 0, approved.stderr
    assert request(f"{api}/execute", execute)[0] == 200


def test_after_five_wrong_codes_only_the_console_decides(
    serve: Serve, program: Run, folder: Path
) -> None:
    with (folder / "toolgate.toml").open("a", encoding="utf-8") as file:
        file.write('[[guard]]\ntools = ["small:echo"]\napprover = "user"\n')
    gateway = serve()
    gateway.line("small")
    api = f"{gateway.address}/api/v1"
    _, refusal = request(f"{api}/execute", {"toolKey": "small:echo", "arguments": {"text": "hi"}})
    approval = json.loads(refusal)["error"]["approval"]["id"]
    for number in range(5):
        guess = {"code": f"AAAA-AAA{number}"}
        assert request(f"{api}/approvals/{approval}/approve", guess)[0] == 403
    _, page = request(f"{gateway.address}/console/approvals", Sec_Fetch_Site="none")
    code = page.partition(f"approve {approval} --code ")[2][:9]
    status, answer = request(f"{api}/approvals/{approval}/approve", {"code": code})
    assert status == 403
    assert "5 wrong codes" in answer
    rejected = program("approvals", "reject", approval)
    assert rejected.returncode == 0, "declining needs no code"


def test_an_agent_with_a_token_of_its_own_gets_around_no_approval(
    serve: Serve, program: Run, folder: Path
) -> None:
    """It has a shell, its own token and Toolgate's documentation; nothing of the approver's."""
    settings = folder / "toolgate.toml"
    guard = '[[guard]]\ntools = ["small:echo"]\napprover = "admin"\n'
    settings.write_text(f'auth = "required"\n{settings.read_text("utf-8")}{guard}', "utf-8")
    secret, boss = (
        "Bearer "
        + json.loads(program("tokens", "create", role, "--role", role, "--json").stdout)["token"]
        for role in ("member", "admin")
    )
    gateway = serve()
    gateway.line("small")
    api = f"{gateway.address}/api/v1"
    execute = {"toolKey": "small:echo", "arguments": {"text": "hi"}}
    status, refusal = request(f"{api}/execute", execute, Authorization=secret)
    assert status == 403
    approval = json.loads(refusal)["error"]["approval"]["id"]

    # It claims to be a client with a person in front of it, and answers in that person's place.
    client = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    named = {"name": "small__echo", "arguments": execute["arguments"]}
    yes = {"approval": {"action": "accept", "content": {"approve": True}}}
    for answer in (
        {},
        {"inputResponses": yes},
        {"inputResponses": yes, "requestState": approval},
    ):
        call = modern("tools/call", named | answer)
        call["params"]["_meta"] |= client
        headers = {**headers_for(call), "Authorization": secret}
        assert "größer" not in request(f"{gateway.address}/mcp", call, **headers)[1]
    # It asks for the code, guesses it, and takes away what stands in its way.
    _, shown = request(f"{api}/approvals/{approval}", Authorization=secret)
    assert json.loads(shown)["code"] is None
    for path, body in {
        f"approvals/{approval}/approve": {"code": "AAAA-AAAA"},
        "guards": {"tools": ["small:echo"], "approver": "user"},
        "tokens": {"name": "second", "role": "admin"},
        "permissions": {"rule": "right=approve", "subject": "user:member", "effect": "allow"},
        "servers": {"name": "copy", "command": "true"},
        "servers/small/disable": {},
    }.items():
        assert request(f"{api}/{path}", body, Authorization=secret)[0] in {400, 403, 404}, path
    # It looks at the console as if it were a browser.
    for headers in ({"Authorization": secret}, {"Sec_Fetch_Site": "none"}):
        _, page = request(f"{gateway.address}/console/approvals", **headers)
        assert "--code" not in page
    assert request(f"{api}/execute", execute, Authorization=secret)[0] == 403

    approved = request(f"{api}/approvals/{approval}/approve", {}, Authorization=boss)
    assert approved[0] == 200, approved[1]
    assert request(f"{api}/execute", execute, Authorization=secret)[0] == 200
