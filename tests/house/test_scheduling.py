"""Tests that share servers run in one process: else each process starts its own."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scheduling import LONGEST, ModuleScheduling

ROOT = Path(__file__).parents[2]


@pytest.fixture
def grouped(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("one process runs all tests, or they are not grouped")


@pytest.mark.usefixtures("grouped")
@pytest.mark.xdist_group("groups")
@pytest.mark.parametrize("number", range(2))
def test_a_test_of_a_group_is_known_as_one(request: pytest.FixtureRequest, number: int) -> None:
    """pytest-xdist goes by the name; with pytest 9.2 it had none, and nothing said so."""
    assert request.node.nodeid.endswith(f"[{number}]@groups")


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("number", range(20))
def test_one_process_runs_all_tests_of_a_module(
    run_folder: Path, worker_id: str, number: int
) -> None:
    with (run_folder / "processes_of_a_module").open("a+", encoding="utf-8") as file:
        file.write(f"{worker_id}\n")
        file.seek(0)
        assert set(file.read().split()) == {worker_id}


class Process:
    """A double of a process of pytest-xdist: it notes what it is told to run."""

    shutting_down = False

    def __init__(self) -> None:
        self.started: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.started += indices

    def shutdown(self) -> None:
        pass


def test_the_longest_modules_come_first_and_then_those_with_most_tests() -> None:
    tests = ["a.py::x", "b.py::x", "b.py::y[::]", f"{LONGEST[0]}::x", f"c.py::x@{LONGEST[1]}"]
    option = SimpleNamespace(loadscopereorder=True, debug=False)
    config: Any = SimpleNamespace(getvalue=lambda _: ["popen"], option=option)
    process: Any = Process()
    scheduling = ModuleScheduling(config)
    scheduling.add_node(process)
    scheduling.add_node_collection(process, tests)

    scheduling.schedule()
    for index in (3, 4, 1, 2):
        scheduling.mark_test_complete(process, index)

    assert process.started == [3, 4, 1, 2, 0]


def test_the_longest_modules_and_groups_exist() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    groups = set(re.findall(r'xdist_group\("([^"]+)"\)', "".join(sources)))

    assert [name for name in LONGEST if name not in groups and not (ROOT / name).is_file()] == []
