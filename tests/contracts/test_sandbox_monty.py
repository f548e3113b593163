"""The sandbox of pydantic-monty keeps the duties of its seam."""

import pytest

from toolgate.testing.contracts.sandbox import SandboxContract

monty = pytest.importorskip("toolgate.models.sandboxes.monty", exc_type=ModuleNotFoundError)


class TestMonty(SandboxContract):
    @pytest.fixture
    def sandbox(self):
        return monty.build(monty.Options(processes=2))
