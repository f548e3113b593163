"""Workspaces as they are found on disk, whole and damaged, and changes that can be undone."""

import json
import sys
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from tests.limits import HANG_S
from tests.packs.builtin.servoy.workspaces import (
    RELATION,
    VALUE_LIST,
    call,
    files,
    make,
    put,
    solution,
)
from toolgate import Caller
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.files import disk
from toolgate.packs.builtin.servoy.files.undo_log import FileChange, UndoLog, state_folder
from toolgate.settings import data_dir

NEW: dict[str, Any] = {
    "name": "fresh",
    "primaryDataSource": "example_data/orders",
    "foreignDataSource": "example_data/employees",
}


async def test_the_solution_and_its_modules_are_found(tmp_path: Path) -> None:
    root = make(tmp_path, modules=("mod_a", "gone"))
    solution(root / "deep/er/mod_b", "json", kind=2, modules=("mod_a",))
    solution(root / "mod_a", "plain", kind=2, modules=("mod_b",))
    (root / "gone/rootmetadata.obj").unlink()

    said = await call(root, "getContext")

    assert said.structured["solution"] == "shop"
    assert said.structured["available"] == ["active", "mod_a", "mod_b"]
    assert "Modules that are not there: gone" in said.text


async def test_the_folder_of_a_solution_is_a_workspace_too(tmp_path: Path) -> None:
    root = make(tmp_path)

    said = await call(root / "shop", "getContext")

    assert said.structured["solution"] == "shop"
    assert said.structured["servers"] == ["example_data"]


async def test_one_of_several_solutions_has_to_be_chosen(tmp_path: Path) -> None:
    root = make(tmp_path)
    solution(root / "office", "plain")

    unsure = await call(root, "getContext")
    chosen = await call(root, "getContext", options={"solution": "office"})
    wrong = await call(root, "getContext", options={"solution": "bakery"})

    assert unsure.is_error
    assert "several solutions: office, shop. Set the pack's solution to one." in unsure.text
    assert chosen.structured["solution"] == "office"
    assert "There is no solution 'bakery'" in wrong.text


async def test_a_folder_without_solutions_says_what_is_missing(tmp_path: Path) -> None:
    empty = await call(tmp_path, "listRelations")
    nowhere = await call(tmp_path / "nowhere", "listRelations")

    assert "no folder in it has a file rootmetadata.obj" in empty.text
    assert "There is no folder" in nowhere.text
    assert empty.is_error
    assert nowhere.is_error


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"folder": "x"}, "[packs.options.servoy] has no key 'folder'. Allowed: workspace,"),
        ({"solution": 5}, "[packs.options.servoy] solution is 5. It has to be a text."),
        ({"editor_command": [1]}, "editor_command is [1]. Write it as a list of texts."),
        ({"editor_command": 'code "'}, "editor_command is 'code \"': No closing quotation."),
    ],
)
async def test_options_that_mean_nothing_are_refused(
    tmp_path: Path, options: dict[str, object], text: str
) -> None:
    said = await call(make(tmp_path), "listRelations", options=options)

    assert said.is_error
    assert text in said.text


async def test_a_context_belongs_to_its_conversation(tmp_path: Path) -> None:
    root = make(tmp_path)

    await call(root, "setContext", context="mod_base", caller=Caller.local(conversation="a"))
    here = await call(root, "getContext", caller=Caller.local(conversation="a"))
    there = await call(root, "getContext", caller=Caller.local(conversation="b"))

    assert here.structured["context"] == "mod_base"
    assert there.structured["context"] == "active"


async def test_a_context_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path)

    wrong = await call(root, "setContext", context="x")
    none = await call(root, "setContext")
    own = await call(root, "setContext", context="shop")

    assert wrong.text == "Context 'x' not found. Available: active, mod_base"
    assert wrong.is_error
    assert none.text == "Error: 'context' parameter is required"
    assert own.structured["context"] == "active"


CONFLICT = 'name:"a",\n<<<<<<< HEAD\ntypeid:22,\n=======\ntypeid:23,\n>>>>>>> theirs\nuuid:"U"'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CONFLICT, ":2: the file cannot be read: there are marks of a merge conflict."),
        ('name:"broken",\nitems:[\n{', ":3: the file cannot be read: a key is expected"),
        ('name:"broken"', "it may have been written in part"),
        ("", ": the file cannot be read: the file is empty."),
        ("[\n\n]", "it holds a list and no relation"),
        ("\x00\x00", ": the file cannot be read:"),
    ],
    ids=["conflict", "cut off", "without identity", "empty", "list", "binary"],
)
async def test_a_damaged_relation_is_named_and_left_alone(
    tmp_path: Path, text: str, reason: str
) -> None:
    root = make(tmp_path)
    path = root / "shop/relations/broken.rel"
    path.write_text(text, encoding="utf-8")
    before = files(root)

    opened = await call(root, "openRelation", **{**NEW, "name": "broken"})
    listed = await call(root, "listRelations")
    renamed = await call(root, "renameRelation", oldName="broken", newName="whole")
    changed = await call(root, "openRelation", name="broken", properties={"comment": "x"})
    taken = await call(root, "renameRelation", oldName="orders_to_customers", newName="BROKEN")

    for said in (opened, renamed, changed):
        assert said.is_error
        assert str(path) in said.text
        assert reason in said.text
    assert "1. orders_to_customers" in listed.text
    assert reason in listed.text
    assert taken.is_error
    assert files(root) == before


async def test_a_damaged_file_does_not_keep_others_from_being_made(tmp_path: Path) -> None:
    root = make(tmp_path)
    (root / "shop/relations/broken.rel").write_text("name:", encoding="utf-8")

    said = await call(root, "openRelation", **NEW)

    assert not said.is_error


@pytest.mark.parametrize("name", ["rootmetadata.obj", "solution_settings.obj"])
async def test_a_solution_that_is_half_written_is_refused(tmp_path: Path, name: str) -> None:
    root = make(tmp_path)
    (root / "shop" / name).write_text('modulesNames:"mod', encoding="utf-8")
    before = files(root)

    said = await call(root, "openRelation", **NEW)

    assert said.is_error
    assert f"{root}/shop/{name}:1: the file cannot be read: a text is begun here" in said.text
    assert files(root) == before


@pytest.mark.parametrize("what", ["shop/relations", "shop/relations/orders_to_customers.rel"])
async def test_what_is_read_only_stays_as_it_is(tmp_path: Path, what: str) -> None:
    """Replacing a file as a whole would get around its own protection."""
    root = make(tmp_path)
    path = root / what
    mode = path.stat().st_mode
    before = files(root)
    path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        deleted = await call(root, "deleteRelation", name="orders_to_customers")
        renamed = await call(root, "renameRelation", oldName="orders_to_customers", newName="b")
    finally:
        path.chmod(mode)

    for said in (deleted, renamed):
        assert said.is_error
        assert said.text == f"{path} is read-only. Nothing was changed."
    assert files(root) == before


async def test_nothing_is_written_through_a_link_that_leads_outside(tmp_path: Path) -> None:
    root = make(tmp_path / "ws")
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = root / "shop/relations"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.symlink_to(outside)

    said = await call(root, "openRelation", **NEW)

    assert said.is_error
    assert "leads out of the workspace" in said.text
    assert not list(outside.iterdir())


async def test_each_file_of_a_mixed_solution_keeps_its_own_dialect(tmp_path: Path) -> None:
    """Servoy converts file by file: what is new follows the solution, what is there stays."""
    root = make(tmp_path, "plain")
    put(root / "shop/relations/new.rel", {**RELATION, "name": "new"}, "json")
    put(root / "shop/valuelists/v.val", {**VALUE_LIST, "name": "v"}, "json")

    await call(root, "openRelation", name="new", properties={"comment": "x"})
    await call(root, "renameValueList", oldName="v", newName="w")
    await call(root, "openRelation", **NEW)

    assert (root / "shop/relations/new.rel").read_text().startswith("{\n    ")
    assert (root / "shop/valuelists/w.val").read_text().startswith("{\n    ")
    assert (root / "shop/relations/fresh.rel").read_text().startswith("allowCreation")


async def test_line_ends_of_windows_are_kept_and_taken_over(tmp_path: Path) -> None:
    root = make(tmp_path)
    for path in (root / "shop").rglob("*.*"):
        if path.suffix in {".obj", ".rel"}:
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    await call(root, "openRelation", name="orders_to_customers", properties={"comment": "x"})
    await call(root, "openRelation", **NEW)

    for name in ("orders_to_customers", "fresh"):
        content = (root / f"shop/relations/{name}.rel").read_bytes()
        assert content.count(b"\r\n") == content.count(b"\n") > 5


async def test_two_solutions_of_one_name_are_refused(tmp_path: Path) -> None:
    root = make(tmp_path)
    solution(root / "copy/shop", "plain")

    said = await call(root, "listRelations")

    assert said.is_error
    assert "Two solutions are called 'shop'" in said.text


async def test_changes_are_undone_one_by_one(tmp_path: Path) -> None:
    root = make(tmp_path)
    before = files(root)
    await call(root, "openRelation", **NEW)
    await call(root, "openRelation", name="fresh", properties={"comment": "x"})
    await call(root, "renameRelation", oldName="fresh", newName="fresher")
    await call(root, "deleteRelations", names=["fresher", "orders_to_customers"])
    await call(root, "openValueList", name="v", customValues=["a"])

    listed = await call(root, "undo", count=0)
    first = await call(root, "undo")
    rest = await call(root, "undo", count=20)
    none = await call(root, "undo")

    assert [line.partition(" (")[0] for line in listed.text.splitlines()] == [
        "1. Value list 'v' created",
        "2. Relation deleted: fresher, orders_to_customers",
        "3. Relation 'fresh' renamed to 'fresher'",
        "4. Relation 'fresh' changed: comment",
        "5. Relation 'fresh' created",
    ]
    assert first.text == "Undone: Value list 'v' created"
    assert len(rest.structured["undone"]) == 4
    assert none.text == "There is nothing to undo."
    assert none.is_error
    assert files(root) == before


async def test_twenty_changes_are_remembered(tmp_path: Path) -> None:
    root = make(tmp_path, tables=None)
    for number in range(23):
        await call(root, "openValueList", name=f"v{number}")

    listed = await call(root, "undo", count=0)
    await call(root, "undo", count=20)

    assert len(listed.text.splitlines()) == 20
    assert sorted(path.stem for path in (root / "shop/valuelists").iterdir()) == [
        "order_status",
        "v0",
        "v1",
        "v2",
    ]


async def test_what_somebody_changed_since_is_not_undone(tmp_path: Path) -> None:
    root = make(tmp_path)
    await call(root, "openRelation", **NEW)
    path = root / "shop/relations/fresh.rel"
    path.write_text(path.read_text().replace("joinType:1,\n", ""), encoding="utf-8")
    before = files(root)

    said = await call(root, "undo")

    assert said.is_error
    assert f"{path} was changed by somebody else in the meantime" in said.text
    assert files(root) == before


async def test_changes_are_remembered_beside_the_state_of_git(tmp_path: Path) -> None:
    root = make(tmp_path / "repo/ws")
    (tmp_path / "repo/.git").mkdir()

    await call(root, "openRelation", **NEW)

    kept = sorted(path.suffix for path in (tmp_path / "repo/.git/toolgate").iterdir())
    assert kept == [".json", ".lock"]


def test_a_work_tree_s_state_is_where_its_file_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/.git").write_text("gitdir: ../real\n", encoding="utf-8")

    assert state_folder(tmp_path / "ws") == tmp_path / "real/toolgate"


async def test_without_git_they_are_remembered_outside_of_the_workspace(tmp_path: Path) -> None:
    root = make(tmp_path)
    before = files(root)

    refused = await call(root, "deleteRelation", name="nope")
    await call(root, "openRelation", **NEW)

    assert refused.is_error
    assert set(files(root)) - set(before) == {"shop/relations/fresh.rel"}
    assert [path.suffix for path in sorted((data_dir() / "servoy").iterdir())] == [".json", ".lock"]


def test_changes_of_which_one_fails_are_all_taken_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "folder").mkdir()
    journal = UndoLog(tmp_path)
    changes = [
        FileChange(path=tmp_path / "a", before=b"1", after=b"2"),
        FileChange(path=tmp_path / "a/below", before=None, after=b"x"),
    ]

    with pytest.raises(ToolRefusedError, match="Nothing was changed"), journal.locked():
        journal.apply("both", changes)

    assert (tmp_path / "a").read_bytes() == b"1"
    assert journal.records() == []


def test_a_change_that_a_crash_cut_short_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"1")
    journal = UndoLog(tmp_path)
    changes = [FileChange(path=tmp_path / name, before=b"1", after=b"2") for name in ("a", "b")]
    with journal.locked():
        journal.apply("both", changes)
    kept = next((data_dir() / "servoy").glob("*.json"))
    rows = json.loads(kept.read_text())
    rows["changes"][0]["done"] = False
    kept.write_text(json.dumps(rows))
    (tmp_path / "b").write_bytes(b"1")  # as if the process had ended between the two

    with journal.locked():
        assert journal.records() == []

    assert (tmp_path / "a").read_bytes() == b"1"


def test_a_damaged_memory_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    journal = UndoLog(tmp_path)
    with journal.locked():
        journal.apply("one", [FileChange(path=tmp_path / "a", before=None, after=b"x")])
    next((data_dir() / "servoy").glob("*.json")).write_text("{")

    with pytest.raises(ToolRefusedError, match="is damaged"), journal.locked():
        pass


HOLD = """
import sys
from pathlib import Path
from toolgate.packs.builtin.servoy.files.disk import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_change_a_workspace_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    monkeypatch.setattr(disk, "LOCK_WAIT_S", 0.05)
    with Popen([sys.executable, "-c", HOLD, str(path)], stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"

        with pytest.raises(ToolRefusedError, match="Another process"), disk.locked(path):
            pass

        other.communicate(b"")
    with disk.locked(path):
        pass


async def test_opening_starts_the_editor_that_is_set(tmp_path: Path) -> None:
    root = make(tmp_path)
    seen = tmp_path / "seen"
    command = [sys.executable, "-c", f"import sys;open({str(seen)!r},'w').write(sys.argv[1])"]

    await call(
        root, "openRelation", name="orders_to_customers", options={"editor_command": command}
    )
    wrong = await call(
        root, "openForm", name="orders", options={"editor_command": "no-such-editor {path}"}
    )

    from toolgate.packs.builtin.servoy import _call_context

    for each in _call_context._editors:
        each.wait(timeout=HANG_S)
    assert seen.read_text() == str(root / "shop/relations/orders_to_customers.rel")
    assert "The editor 'no-such-editor' could not be started" in wrong.text
