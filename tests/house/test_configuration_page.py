"""The reference of settings is made from the code and says what the code says."""

import importlib.util
from pathlib import Path
from types import ModuleType

from toolgate.settings import load

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_configuration_page_is_the_one_that_the_code_makes() -> None:
    page = (DOCS / "configuration.md").read_text("utf-8")
    assert page == generator().configuration(), "run: python docs/generate.py"


def test_the_example_of_the_page_is_a_configuration(tmp_path: Path) -> None:
    page = (DOCS / "configuration.md").read_text("utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "toolgate.toml").write_text(example, encoding="utf-8")
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text("{}")
    environ = {"HOME": str(tmp_path), "GITHUB_TOKEN": "x", "DOCS_TOKEN": "y"}
    settings = load(cwd=tmp_path, environ=environ)
    assert [server.name for server in settings.servers] == ["github", "docs"]
    assert all(server.enabled for server in settings.servers)
