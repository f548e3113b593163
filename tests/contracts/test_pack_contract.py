"""The contract of packs, kept by those that ship and broken by others."""

import inspect
from pathlib import Path

import anyio
import pytest

from tests.packs.pack_files import SALES, write_files
from toolgate.intents import builtin_pack_folder
from toolgate.testing.contracts.packs import PackContract


class TestSchema(PackContract):
    folder = builtin_pack_folder("schema")


class TestServoy(PackContract):
    folder = builtin_pack_folder("servoy")


@pytest.mark.parametrize(
    ("files", "duty"),
    [
        ({"intents/refunds.txt": b"\xff"}, "test_every_file_of_it_can_be_used"),
        ({"rules/other.md": "x"}, "test_every_rule_belongs_to_an_intent"),
        ({"intents/orders.txt": "Money back"}, "test_no_prompt_stands_under_two_intents"),
        ({"tools/orders.py": "import no_such_module_here"}, "test_its_code_can_be_loaded"),
    ],
    ids=range(4),
)
def test_a_broken_pack_fails_where_it_is_broken(
    tmp_path: Path, files: dict[str, str | bytes], duty: str
) -> None:
    class Sales(PackContract):
        folder = write_files(write_files(tmp_path / "sales", SALES), files)

    check = getattr(Sales(), duty)
    with pytest.raises(AssertionError):
        anyio.run(check, tmp_path) if inspect.iscoroutinefunction(check) else check()


class TestSmall(PackContract):
    @pytest.fixture(autouse=True)
    def _written(self, tmp_path: Path) -> None:
        type(self).folder = write_files(tmp_path / "sales", SALES)
