"""`toolgate pack enable` and `disable`, what `doctor` says of packs, and `--dev`."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.packs.pack_files import SALES, write_files
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.terminal._context import SharedOptions, set_shared_options


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a pack and a configuration that has comments."""
    write_files(tmp_path / "packs" / "sales", SALES)
    (tmp_path / "toolgate.toml").write_text(
        "# mine\n[packs] # ours\n\n[serve]\nport = 0\n", "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(place: Path) -> dict[str, Any]:
    return tomllib.loads((place / "toolgate.toml").read_text("utf-8"))["packs"]


def test_a_shipped_pack_is_switched_in_the_configuration(place: Path, command: Command) -> None:
    on = command("pack", "enable", "servoy")
    again = command("pack", "enable", "servoy")
    enabled = table(place)
    off = command("pack", "disable", "servoy")

    assert (on.status, on.out) == (0, f"Enabled servoy: [packs] in {place / 'toolgate.toml'}.\n")
    assert (again.status, again.err) == (0, "servoy is already enabled.\n")
    assert enabled == {"enable": ["servoy"]}
    assert off.status == 0
    assert table(place) == {"enable": []}
    assert (place / "toolgate.toml").read_text("utf-8").startswith("# mine\n[packs] # ours\n")


@pytest.mark.parametrize("name", ["sales", "schema"])
def test_a_pack_that_is_used_anyway_can_be_switched_off(
    place: Path, command: Command, name: str
) -> None:
    command("pack", "disable", name)
    disabled = table(place)
    command("pack", "enable", name)

    assert disabled == {"disable": [name]}
    assert table(place) == {"disable": []}


def test_a_pack_that_is_not_there_cannot_be_switched(place: Path, command: Command) -> None:
    done = command("pack", "enable", "sevroy")

    assert done.status == 2
    assert done.err.startswith("toolgate: There is no pack 'sevroy'. Found: sales, documents, ")
    assert table(place) == {}


def test_doctor_names_the_file_of_a_pack_that_cannot_be_used(place: Path, command: Command) -> None:
    good = command("doctor")
    write_files(place / "packs" / "sales", {"intents/orders.toml": "tool = = 1"})
    bad = command("doctor")

    assert "ok       packs: 2 packs enabled: sales, schema." in good.out
    assert bad.status == 1
    path = place / "packs" / "sales" / "intents" / "orders.toml"
    assert f"{path}:1: this is not valid TOML" in bad.out.replace("\n         ", " ")


def test_dev_stands_over_the_configuration(place: Path) -> None:
    set_shared_options(SharedOptions(dev=True))
    try:
        assert load_settings().packs.dev
    finally:
        set_shared_options(SharedOptions())
    assert not load_settings().packs.dev


def test_a_module_that_cannot_be_loaded_is_listed(place: Path, command: Command) -> None:
    write_files(place / "packs" / "sales", {"tools/broken.py": "\nimport no_such_module_here\n"})
    path = place / "packs" / "sales" / "tools" / "broken.py"
    said = f"{path}:2: ModuleNotFoundError: No module named 'no_such_module_here'."

    rows = {row["name"]: row for row in command("pack", "list", "--json").json}

    assert rows["sales"]["problems"] == [said]
    assert rows["sales"]["on"]
    assert said in command("pack", "list").err


def test_what_code_of_a_pack_prints_is_no_answer(place: Path, command: Command) -> None:
    loud = f"print('LOUD')\n{SALES['tools/orders.py']}"
    loud = loud.replace("    return", "    print('LOUD')\n    return")
    write_files(place / "packs" / "sales", {"tools/orders.py": loud})

    listed = command("pack", "list", "--json")
    called = command("call", "sales:order", "--arg", "number=7")

    shipped = {"documents", "prompts", "schema", "servoy", "sql"}
    assert {row["name"] for row in listed.json} == {"sales", *shipped}
    assert called.out == "order 7\n"
    assert "LOUD" in called.err
