"""The contract suite for packs.

Example:
    ```python
    class TestSales(PackContract):
        folder = Path("packs/sales")
    ```
"""

from pathlib import Path
from typing import ClassVar

import pytest
from anyio import fail_after

from toolgate.intents import IntentDetector
from toolgate.packs import Packs, PackState, load_pack, no_services
from toolgate.settings import PackSettings
from toolgate.testing.contracts._limits import HANG_S


class PackContract:
    """A folder is a valid and complete pack."""

    folder: ClassVar[Path]
    """The folder of the pack."""

    def test_every_file_of_it_can_be_used(self) -> None:
        """No file is skipped."""
        assert load_pack(self.folder, dev=True).problems == ()

    def test_every_rule_belongs_to_an_intent(self) -> None:
        """Rules files are named like intents."""
        pack = load_pack(self.folder, dev=True)
        intents = {intent.name.casefold() for intent in pack.intents}
        assert set(pack.rules) <= intents, "rules of an intent that does not exist are never given"

    def test_no_prompt_stands_under_two_intents(self) -> None:
        """A message cannot belong to two intents."""
        owners: dict[str, str] = {}
        for name, languages in load_pack(self.folder, dev=True).prompts.items():
            for prompt in (text.casefold() for texts in languages.values() for text in texts):
                assert owners.setdefault(prompt, name) == name, prompt

    def test_its_keywords_hold(self) -> None:
        """Its intents can be detected by keywords."""
        pack = load_pack(self.folder, dev=True)
        assert IntentDetector(pack.intents).detect("").intent == "none"

    @pytest.mark.anyio
    async def test_its_code_can_be_loaded(self, tmp_path: Path) -> None:
        """All of its modules can be imported and register their tools."""
        settings = PackSettings(paths=(str(self.folder),))
        packs = Packs(settings, cwd=tmp_path, services=no_services)
        await packs.refresh()
        with fail_after(HANG_S):
            await packs.load()
        state = self._state(packs)
        await packs.aclose()
        assert state.problems == ()

    def _state(self, packs: Packs) -> PackState:
        folder = self.folder.resolve()
        return next(state for state in packs.current.states if state.folder.resolve() == folder)
