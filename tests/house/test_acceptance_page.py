"""Every duty of turns has a test, and the page says which."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("made", DOCS / "generate_acceptance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_has_a_test(generator: ModuleType) -> None:
    assert sorted(set(generator.rows()) - set(generator.tests_by_row())) == []
    assert len(generator.rows()) == 76 + 10


def test_the_page_is_the_one_that_the_tests_make(generator: ModuleType) -> None:
    page = (DOCS / "acceptance.md").read_text(encoding="utf-8")

    assert page == generator.acceptance(), "run: make docs"
