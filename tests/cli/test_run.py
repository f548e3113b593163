"""`toolgate run`: programs over tools, from a file."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command, server_table
from toolgate.cli.terminal._exit import FAILED, SUCCESS, USAGE_ERROR

pytest.importorskip("pydantic_monty")

SUM = """\
total = 0
for number in inputs["numbers"]:
    total = (await small.add_numbers(a=total, b=number))["sum"]
return total
"""
MAIN = '''\
async def main(a: int, b: int = 10) -> Any:
    """Add two numbers."""
    return await small.add_numbers(a=a, b=b)
'''


def write(folder: Path, code: str) -> str:
    (folder / "program.py").write_text(code, encoding="utf-8")
    return "program.py"


def test_run_gives_the_result_of_a_program(command: Command, folder: Path) -> None:
    done = command("run", write(folder, SUM), "--inputs", '{"numbers": [1, 2, 3.5]}')
    assert (done.status, done.out) == (SUCCESS, "6.5\n"), done.err
    shown = command("run", "program.py", "--input", "numbers=[1]", "--json").json
    assert shown["content"] == [{"type": "text", "text": "1"}]


def test_run_calls_main_with_the_inputs(command: Command, folder: Path) -> None:
    file = write(folder, MAIN)
    assert command("run", file, "--input", "a=1").out == '{"sum":11}\n'
    assert command("run", file, "--input", "a=1", "--input", "b=2").out == '{"sum":3}\n'
    failed = command("run", file)
    assert failed.status == FAILED
    assert "needs the input 'a'. Its inputs: a, b" in failed.err
    unknown = command("run", file, "--input", "a=1", "--input", "b=2", "--input", "c=3")
    assert unknown.status == FAILED
    assert "has no input 'c'" in unknown.err


def test_run_says_what_is_wrong_before_anything_runs(command: Command, folder: Path) -> None:
    failed = command("run", write(folder, "await small.add_numbers(a=1, c=2)"))
    assert failed.status == FAILED
    assert "'c' does not match any known parameter" in failed.err


def test_run_lists_the_tools_that_a_program_names(command: Command, folder: Path) -> None:
    listed = command("run", write(folder, SUM), "--dry-run")
    assert (listed.status, listed.out) == (SUCCESS, "small.add_numbers (may destroy)\n")


def test_run_parks_a_program_and_lets_it_go_on(command: Command, folder: Path) -> None:
    """In processes of their own: the program waits in the store."""
    guard = '\n[[guard]]\ntools = ["small:add_numbers"]\napprover = "user"\n'
    table = server_table("small")
    (folder / "toolgate.toml").write_text(table + guard, encoding="utf-8")
    file = write(folder, "await gather(small.add_numbers(a=1, b=1), small.add_numbers(a=2, b=2))")
    waits = command("run", file)
    assert waits.status == FAILED
    assert "a person has to approve 2 of its calls" in waits.err
    assert 'small.add_numbers({"a":1,"b":1})' in waits.err
    assert "Decide on the Approvals page of Toolgate's console, or with" in waits.err
    shown = command("run", file, "--json").json["waiting"]
    ids = [call["approval_id"] for call in shown["calls"]]
    again = command("run", "--resume", shown["id"])
    assert again.status == FAILED
    assert shown["id"] in again.err
    (folder / "toolgate.toml").write_text(table, encoding="utf-8")
    assert len(ids) == 2
    done = command("run", "--resume", shown["id"])
    assert (done.status, done.out) == (SUCCESS, '[{"sum":2},{"sum":4}]\n'), done.err
    assert "There is no program" in command("run", "--resume", shown["id"]).err


@pytest.mark.parametrize(
    "argv", [(), ("gone.py",), ("gone.py", "--resume", "x"), ("program.py", "--inputs", "[1]")]
)
def test_run_without_a_program_is_wrong_usage(
    argv: tuple[str, ...], command: Command, folder: Path
) -> None:
    write(folder, "1")
    assert command("run", *argv).status == USAGE_ERROR


def test_what_programs_kept_is_listed_and_deleted(command: Command, folder: Path) -> None:
    assert command("run", write(folder, 'await store("prices", [1, 2])\n1')).status == SUCCESS
    (value,) = command("run", "--kept", "--json").json["values"]
    assert (value["name"], value["size_bytes"]) == ("prices", 5)
    assert "prices\t5 bytes" in command("run", "--kept").out
    assert command("run", "--forget", value["id"]).status == SUCCESS
    assert command("run", "--kept", "--json").json == {"values": [], "programs": []}
    again = command("run", "--forget", value["id"])
    assert again.status == FAILED
    assert "There is no value and no program" in again.err
