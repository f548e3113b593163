"""Packs that change while they are used: all at once, and never to something that is broken."""

from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from tests.limits import HANG_S
from tests.packs.pack_files import SALES, write_files
from toolgate.packs import Packs, PackSet
from toolgate.settings import PackSettings
from toolgate.upstream import ToolServices


async def reading(folder: Path, files: Mapping[str, str | bytes] = SALES) -> Packs:
    """Packs over one folder, read once; their code may run."""
    write_files(folder, files)
    settings = PackSettings(paths=(str(folder),), disable=("schema",))
    packs = Packs(settings, cwd=folder.parent, services=lambda _: ToolServices())
    await packs.refresh()
    return packs


def prompts(packs: Packs) -> list[str]:
    return [text for pack in packs.current.packs for text in pack.prompts["refunds"][""]]


async def test_a_change_is_told_with_all_packs_at_once(tmp_path: Path) -> None:
    packs = await reading(tmp_path / "sales")
    told: list[PackSet] = []

    async def listen(found: PackSet) -> None:
        told.append(found)

    packs.on_change(listen)
    before = packs.current
    write_files(tmp_path / "sales", {"intents/refunds.txt": "pay me back\n"})

    assert await packs.refresh()
    assert not await packs.refresh()

    assert told == [packs.current]
    assert before.packs[0].prompts["refunds"][""][0] == "money back", "the old set is untouched"
    assert prompts(packs) == ["pay me back"]
    assert packs.current.version != before.version


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("intents/orders.toml", "tool = = 1", "orders.toml:1: this is not valid TOML"),
        ("intents/refunds.txt", b"\xff\xfe", "refunds.txt:1: this is not UTF-8 text"),
        ("pack.toml", "name = [", "pack.toml:1: this is not valid TOML"),
        ("rules/refunds.md", b"\0", "refunds.md:1: this is not text"),
        ("tools/orders.py", "def order(:\n", "orders.py:1: SyntaxError: invalid syntax"),
        ("tools/orders.py", "\n\nimport nope_x\n", "orders.py:3: ModuleNotFoundError: No module"),
        ("tools/orders.py", "x = 1\n", "orders.py: it has neither a function marked with @tool"),
        ("tools/orders.py", "raise SystemExit(3)\n", "orders.py:1: SystemExit: 3"),
    ],
    ids=range(8),
)
async def test_a_broken_file_keeps_the_version_before(
    tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    packs = await reading(tmp_path / "sales")
    (server,) = packs.specs((), has_connections=False)
    good = packs.current.packs[0]

    write_files(tmp_path / "sales", {name: content, "unsupported.txt": "where is my parcel\n"})
    assert await packs.refresh()

    (state,) = [each for each in packs.current.states if each.name == "sales"]
    assert state.is_kept
    assert state.pack == good
    (problem,) = state.problems
    assert said in problem
    assert packs.specs((), has_connections=False) == [server]

    write_files(tmp_path / "sales", {name: SALES[name]})
    assert await packs.refresh()

    (state,) = [each for each in packs.current.states if each.name == "sales"]
    assert not state.is_kept
    assert state.problems == ()
    assert state.pack is not None
    assert state.pack.unsupported == ("where is my parcel",)


async def test_a_pack_that_starts_broken_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    packs = await reading(tmp_path / "sales", {**SALES, "intents/orders.toml": "="})
    write_files(tmp_path / "sales", {"intents/refunds.txt": "pay me back\n"})

    assert await packs.refresh()

    assert prompts(packs) == ["pay me back"], "there was no better version to keep"
    assert len(packs.current.problems) == 1


async def test_one_broken_pack_leaves_the_others_alone(tmp_path: Path) -> None:
    write_files(tmp_path / "packs" / "bad", {"pack.toml": "name = ["})
    packs = await reading(tmp_path / "packs" / "sales")
    await packs.reload(PackSettings(paths=(str(tmp_path / "packs"),), disable=("schema",)))

    assert [pack.name for pack in packs.current.packs] == ["sales"]
    (problem,) = packs.current.problems
    assert "bad/pack.toml:1: this is not valid TOML" in problem


async def test_packs_come_and_go_with_their_folders(tmp_path: Path) -> None:
    packs = Packs(PackSettings(disable=("schema",)), cwd=tmp_path)
    await packs.refresh()
    write_files(tmp_path / "packs" / "sales", SALES)
    assert await packs.refresh()
    assert [pack.name for pack in packs.current.packs] == ["sales"]

    (tmp_path / "packs").rename(tmp_path / "away")
    assert await packs.refresh()
    assert packs.current.packs == ()


async def test_what_is_watched_is_read_once_it_is_still(tmp_path: Path) -> None:
    packs = await reading(tmp_path / "sales")
    changed, stop = anyio.Event(), anyio.Event()

    async def listen(found: PackSet) -> None:
        if "pay me back" in found.packs[0].prompts["refunds"][""]:
            changed.set()

    packs.on_change(listen)
    with anyio.fail_after(HANG_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: packs.watch(stop=stop, interval_s=0.02))
            write_files(tmp_path / "sales", {"intents/refunds.txt": "pay me back\n"})
            await changed.wait()
            stop.set()


async def test_changed_prompts_leave_the_server_of_a_pack_running(tmp_path: Path) -> None:
    packs = await reading(tmp_path / "sales")
    before = packs.specs((), has_connections=False)
    write_files(
        tmp_path / "sales", {"intents/refunds.txt": "pay me back\n", "rules/refunds.md": "new"}
    )

    assert await packs.refresh()

    assert packs.specs((), has_connections=False) == before
    assert packs.current.packs[0].rules_of("refunds") == "new"


async def test_a_pack_that_needs_connections_has_no_server_without_them(tmp_path: Path) -> None:
    packs = await reading(
        tmp_path / "sales", {**SALES, "pack.toml": 'name = "sales"\nneeds = ["connections"]\n'}
    )

    assert packs.specs((), has_connections=False) == []
    assert [spec.name for spec in packs.specs((), has_connections=True)] == ["sales"]
    assert packs.current.pack("sales") is not None, "its intents count all the same"


async def test_a_conflict_of_names_is_a_problem_as_long_as_it_lasts(tmp_path: Path) -> None:
    packs = await reading(tmp_path / "sales")

    assert packs.specs(["Sales"], has_connections=False) == []
    assert packs.specs(["Sales"], has_connections=False) == []
    (problem,) = packs.current.problems
    assert "there is a server 'sales' already, from the configuration" in problem
    assert not await packs.refresh()

    assert packs.specs((), has_connections=False)
    assert packs.current.problems == ()
