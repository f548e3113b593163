"""Packs of a gateway that runs in a process of its own: changed, broken, switched off."""

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import anyio
import pytest

from tests.cli.conftest import Command, Serve, Serving
from tests.limits import HANG_S
from tests.packs.pack_files import SALES, write_files
from toolgate.cli.client._load_settings import load_settings
from toolgate.cli.client._open_gateway import find_running
from toolgate.cli.terminal._context import SharedOptions, set_shared_options


def asked(serving: Serving, path: str) -> Any:
    with urlopen(f"{serving.address}/api/v1/{path}", timeout=HANG_S) as answer:
        return json.load(answer)


def has(serving: Serving, key: str) -> bool:
    return key in [tool["toolKey"] for tool in asked(serving, "tools")["tools"]]


def test_a_running_gateway_keeps_what_works_and_switches_packs_off(
    folder: Path, serve: Serve, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sales = write_files(folder / "packs" / "sales", SALES)
    serving = serve()
    serving.line("sales  ready")
    assert has(serving, "sales:order")

    write_files(sales, {"tools/orders.py": "def ("})
    assert "orders.py:1: SyntaxError" in serving.line("The previous version is in use.")
    (row,) = [row for row in command("pack", "list", "--json").json if row["name"] == "sales"]
    assert row["is_kept"]
    assert command("call", "sales:order", "--arg", "number=7").out == "order 7\n"

    # Elsewhere the same gateway answers, unless there are packs that it does not have.
    set_shared_options(SharedOptions(config=folder / "toolgate.toml"))
    for place, files in (("none", {}), ("own", {"packs/stock/intents/stock.txt": "how many\n"})):
        monkeypatch.chdir(write_files(folder / place, {"notes.txt": "x", **files}))
        running = anyio.run(find_running, load_settings())
        assert (running is None) is bool(files)
    monkeypatch.chdir(folder)
    set_shared_options(SharedOptions())

    assert command("pack", "disable", "sales").status == 0
    serving.line("packs read")
    assert not has(serving, "sales:order")
