"""Objects of a solution are not edited as text through other servers (facts 4.11)."""

from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANG_S
from tests.packs.builtin.servoy.workspaces import make
from toolgate.gateway.execution import Protection, Protections
from toolgate.settings import PackSettings, Settings
from toolgate.store import AuditFilter
from toolgate.testing import FakeUpstream, memory_app, text_result
from toolgate.types import Caller, Json

ME = Caller.local(client="ide", conversation="talk")
SERVOY = Protection(pack="servoy", suffixes=(".rel", ".val"), hint="Use its tools.")


def of(tool: str, arguments: Json, *, server: str = "files", read_only: bool = False) -> str:
    protections = Protections()
    protections.take([SERVOY])
    return protections.refusal(server, tool, arguments, read_only=read_only)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "/ws/shop/relations/a.rel", "content": "x"}),
        ("editFile", {"filePath": "A.REL"}),
        ("edit_file", {"edits": [{"path": "a.rel", "old": "b", "new": "c"}]}),
        ("move_file", {"source": "a.val", "destination": "b.txt"}),
        ("delete", {"uri": "file:///ws/a.rel?x=1"}),
        ("create_or_update_file", {"path": "a.rel"}),
        ("str_replace_based_edit_tool", {"command": "create", "path": "a.rel"}),
        ("write_file", {"path": "a.rel/"}),
        ("write_file", {"path": "a.rel/."}),
        ("write_file", {"path": "b/../a.rel/x/.."}),
        ("write_file", {"path": "a%2Erel"}),
        ("write_file", {"path": "file:///ws/a%252erel"}),
        ("write_file", {"path": "a.rel\0.txt"}),
        ("write_file", {"path": "/" * 5_000 + "a.rel"}),
        ("edit_files", {"paths": '["a.rel"]'}),
        ("edit_file", {"edits": '[{"path": "a.rel", "new": "c"}]'}),
    ],
)
def test_a_tool_that_changes_files_must_not_change_these(tool: str, arguments: Json) -> None:
    assert "belongs to the pack 'servoy'. Use its tools." in of(tool, arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": "a.rel"}),
        ("search_files", {"path": "a.rel"}),
        ("write_file", {"path": "notes.md", "content": "see a.rel"}),
        ("write_file", {"path": "a.relations"}),
        ("write_file", {}),
    ],
)
def test_others_and_reading_are_left_alone(tool: str, arguments: Json) -> None:
    assert of(tool, arguments) == ""


def test_a_link_to_a_file_of_a_pack_is_followed_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "note.txt").symlink_to(tmp_path / "a.rel")
    protections = Protections()
    protections.take([SERVOY])

    def refusal(folder: Path | None, path: str) -> str:
        return protections.refusal(
            "files",
            "write_file",
            {"path": path},
            read_only=False,
            folder=None if folder is None else str(folder),
        )

    assert "belongs to the pack" in refusal(tmp_path, "note.txt")
    assert "belongs to the pack" in refusal(tmp_path, str(tmp_path / "note.txt"))
    assert refusal(tmp_path, "other.txt") == ""
    assert refusal(None, "note.txt") == ""


def test_tools_that_say_that_they_only_read_and_the_pack_s_own_may() -> None:
    assert of("write_report", {"path": "a.rel"}, read_only=True) == ""
    assert of("renameRelation", {"path": "a.rel"}, server="servoy") == ""


async def test_the_gateway_refuses_and_points_to_the_tools_of_the_pack(tmp_path: Path) -> None:
    written: list[Any] = []
    files = FakeUpstream(
        {
            "write_file": lambda given: written.append(given) or text_result("written"),
            "read_file": lambda _: text_result("read"),
        }
    )
    packs = PackSettings(
        enable=("servoy",),
        disable=("schema",),
        options={"servoy": {"workspace": str(make(tmp_path))}},
    )
    settings = Settings(mode="all", packs=packs)
    async with memory_app({"files": files}, settings, wait_s=HANG_S) as app:
        call = app.gateway.call
        relation = {"path": "shop/relations/orders_to_customers.rel"}
        refused = await call(ME, {"name": "files__write_file", "arguments": relation}, None)
        read = await call(ME, {"name": "files__read_file", "arguments": relation}, None)
        other = await call(ME, {"name": "files__write_file", "arguments": {"path": "a.md"}}, None)
        await app.recorder.flush()
        records = await app.store.audit.select(AuditFilter(action="protect"))

    assert refused["isError"]
    assert refused["content"][0]["text"].startswith(
        "shop/relations/orders_to_customers.rel is not changed as text: its kind of file belongs "
        "to the pack 'servoy'. Use its tools: openRelation,"
    )
    assert read["content"][0]["text"] == "read"
    assert other["content"][0]["text"] == "written"
    assert len(written) == 1
    assert [each.detail["tool"] for each in records] == ["files:write_file"]
