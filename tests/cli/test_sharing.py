"""`docs/permissions.md`, literally: from a laptop to a shared gateway in five commands."""

import csv
import json
import re
import shlex
import urllib.error
import urllib.request
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tests.cli.conftest import SMALL_SERVER, Command, Serve, server_table
from tests.limits import HANG_S
from toolgate.cli.terminal._exit import DENIED, NO_RESULT, SUCCESS, USAGE_ERROR

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"


def commands() -> tuple[list[list[str]], list[list[str]]]:
    """The two blocks of the section, each line as words."""
    section = PAGE.read_text(encoding="utf-8").partition("in five commands\n")[2]
    section = section.partition("\n## ")[0]
    first, second = (
        [shlex.split(line, comments=True) for line in block.strip().splitlines()]
        for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    )
    return first, second


def ask(address: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
    """What the REST interface answers to somebody with a token."""
    request = urllib.request.Request(
        f"{address}/api/v1/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if token
        else {},
    )
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_five_commands_make_a_shared_gateway_with_two_projects_and_three_tokens(
    command: Command, serve: Serve, folder: Path
) -> None:
    source = SMALL_SERVER.read_text(encoding="utf-8").replace("add_numbers", "read_numbers")
    (folder / "files_server.py").write_text(source, encoding="utf-8")
    notes = server_table("small").replace("[server.small]", "[server.notes]")
    files = notes.replace("[server.notes]", "[server.files]").replace(
        str(SMALL_SERVER), str(folder / "files_server.py")
    )
    (folder / "toolgate.toml").write_text(notes + files, encoding="utf-8")

    made, later = commands()
    assert len(made) == 5
    assert all(words[0] == "toolgate" for words in (*made, *later))
    tokens: dict[str, str] = {}
    for words in made[:4]:
        done = command(*words[1:])
        assert done.status == SUCCESS, done.err
        if words[1] == "tokens":
            names = [word for word in words[3:] if word in {"anna", "ben", "carl"}]
            tokens |= dict(zip(names, done.out.split(), strict=True))
    assert set(tokens) == {"anna", "ben", "carl"}
    assert made[4][1] == "serve"
    address = serve(*made[4][2:]).address.replace("0.0.0.0", "127.0.0.1")

    def seen(name: str) -> set[str]:
        status, answer = ask(address, "tools", tokens[name])
        assert status == 200
        return {tool["toolKey"] for tool in answer["tools"]}

    assert ask(address, "tools", "")[0] == 401
    ends = monotonic() + 60
    while not (seen("anna") and seen("carl")):  # its servers are starting
        assert monotonic() < ends
        sleep(0.05)
    assert "notes:echo" in seen("anna") == seen("ben")
    assert {key.partition(":")[0] for key in seen("anna")} == {"notes"}
    assert seen("carl") == {"files:read_numbers"}
    call = {"toolKey": "files:read_numbers", "arguments": {"a": 1, "b": 2}}
    assert ask(address, "execute", tokens["carl"], call)[0] == 200
    assert ask(address, "execute", tokens["anna"], call)[0] == 404

    explain, rotate, revoke = later
    explained = command(*explain[1:])
    assert explained.status == DENIED, explained.err
    fresh = command(*rotate[1:]).out.strip()
    assert ask(address, "tools", fresh)[0] == ask(address, "tools", tokens["anna"])[0] == 200
    assert command(*revoke[1:]).status == SUCCESS
    assert ask(address, "tools", tokens["ben"])[0] == 401


def code_in_the_console(address: str, approval_id: str) -> str:
    """What a person reads in a browser."""
    page = approvals_page(address, {"Sec-Fetch-Site": "none"})
    return page.partition(f"approve {approval_id} --code ")[2][:9]


def approvals_page(address: str, headers: dict[str, str]) -> str:
    """The console's page of waiting calls."""
    request = urllib.request.Request(f"{address}/console/approvals", headers=headers)
    with urllib.request.urlopen(request, timeout=HANG_S) as response:
        return response.read().decode()


def approval_states(command: Command) -> list[str]:
    """What the audit says about approvals that went well, in order."""
    exported = command("audit", "export", "-", "--format", "ocsf", "--action", "approval")
    events = [json.loads(line) for line in exported.out.splitlines()]
    return [event["unmapped"]["detail"]["state"] for event in events if event["status_id"] == 1]


def count_of_approvals(table: str) -> int:
    """How many records of an exported table are about decisions of people."""
    return sum(record["action"] == "approval" for record in csv.DictReader(table.splitlines()))


def test_a_call_waits_for_approval_from_the_command_line_and_runs_once(
    command: Command, serve: Serve, folder: Path
) -> None:
    """`docs/guards.md`: list, show, approve with other arguments, reject."""
    path = folder / "toolgate.toml"
    guard = '[[guard]]\ntools = ["small:add_*"]\napprover = "user"\nreason = "Sums are dear."\n'
    path.write_text(path.read_text(encoding="utf-8") + guard, encoding="utf-8")
    assert command("approvals", "list").status == NO_RESULT
    call = ("call", "small:add_numbers", "--arg", "a=1", "--arg", "b=2")

    refused = command(*call)
    assert refused.status == DENIED
    assert "Sums are dear." in refused.err
    ((found),) = command("approvals", "list", "--json").json
    assert (found["toolKey"], found["arguments"]) == ("small:add_numbers", '{"a": 1, "b": 2}')
    shown = command("approvals", "show", found["id"][:24])
    assert "Why: Sums are dear." in shown.out
    approve = ("approvals", "approve", found["id"], "--arguments", '{"a": 40, "b": 2}')
    assert command(*approve).status == DENIED
    gateway = serve()
    gateway.line("small")
    outside = approvals_page(gateway.address, {})
    assert "This browser cannot show waiting calls." in outside
    assert "1 call is waiting" in outside
    assert "--code" not in outside
    done = command(*approve, "--code", code_in_the_console(gateway.address, found["id"]))
    assert done.out.startswith("Approved small:add_numbers for local")
    assert '"sum": 42' in command(*call).out
    assert command(*call).status == DENIED

    (second,) = command("approvals", "list", "--json").json
    assert command("approvals", "reject", second["id"], "--comment", "No.").status == SUCCESS
    assert "No." in command(*call).err
    assert command("approvals", "approve", second["id"]).status == USAGE_ERROR
    assert command("approvals", "approve", "nothing").status == NO_RESULT
    assert command("approvals", "approve", second["id"], "--arguments", "[").status == USAGE_ERROR
    listed = command("approvals", "list", "--state", "all", "--json").json
    states = [approval["state"] for approval in listed]
    assert states == ["rejected", "used"]

    states = ["waiting", "approved", "used", "waiting", "rejected"]
    ends = monotonic() + HANG_S
    failures = ("audit", "export", "-", "--format", "csv", "--failed")
    # The gateway writes its records in the background.
    while approval_states(command) != states or count_of_approvals(command(*failures).out) < 3:
        assert monotonic() < ends, (approval_states(command), command(*failures).out)
    assert command(*failures).out.startswith("record_id,at,action,")
    assert command("audit", "export", "-", "--format", "xml").status == USAGE_ERROR


def test_a_guard_that_cannot_work_is_found_by_a_check(command: Command, folder: Path) -> None:
    path = folder / "toolgate.toml"
    guard = '[[guard]]\ndeny = { path = ["("] }\n'
    path.write_text(path.read_text(encoding="utf-8") + guard, encoding="utf-8")
    checked = command("config", "check")
    assert checked.status == USAGE_ERROR
    assert "in deny of a guard is not a regular expression" in checked.err
    assert "toolgate.toml, line" in checked.err
