"""Implementations by name: found by file, built with their options, refused with what fits."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest

from toolgate.base import plugins
from toolgate.base.plugins import available, is_importable, make
from toolgate.errors import (
    BrokenPluginError,
    MissingExtraError,
    OptionError,
    ToolgateError,
    UnknownPluginError,
)
from toolgate.types import PluginSpec

GOOD = """
from dataclasses import dataclass

@dataclass(frozen=True, kw_only=True)
class Options:
    size: int = 3

class Built:
    def __init__(self, size, clock):
        self.size, self.clock = size, clock
    def run(self):
        return self.size

def build(options, *, clock, missing=None):
    return Built(options.size, clock)
"""

NESTED = GOOD.replace(
    "@dataclass",
    """from toolgate.base.validation import check_ranges

@dataclass(frozen=True, kw_only=True)
class Inner:
    width: int = 1
    def __post_init__(self):
        check_ranges(self, {"width": (1, 9)})

@dataclass""",
    1,
).replace("size: int = 3", "size: int = 3\n    inner: Inner = Inner()")


@runtime_checkable
class Runs(Protocol):
    def run(self) -> int: ...


@pytest.fixture
def seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty seam folder `toolgate.pluginseam`."""
    import toolgate

    folder = tmp_path / "pluginseam"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(toolgate, "__path__", [*toolgate.__path__, str(tmp_path)])
    yield folder
    for cached in (plugins._shipped, plugins._installed, plugins.is_importable):
        cached.cache_clear()
    for name in [name for name in sys.modules if name.startswith("toolgate.pluginseam")]:
        del sys.modules[name]


def spec(name: str, **options: Any) -> PluginSpec:
    return PluginSpec(name=name, setting="seam.kind", options=options)


def test_an_added_file_is_found_and_built_without_another_change(seam: Path) -> None:
    (seam / "mine.py").write_text(GOOD, encoding="utf-8")
    (seam / "_helper.py").write_text("", encoding="utf-8")

    assert available("pluginseam") == ["mine"]
    built = make("pluginseam", Runs, spec("mine", size=5), {"clock": 1, "other": 2})
    assert built.run() == 5


@dataclass(frozen=True)
class Wrong:
    file: str
    name: str
    options: dict[str, Any]
    error: type[ToolgateError]
    says: str


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong(GOOD, "mien", {}, UnknownPluginError, "'mien' does not exist. Available: mine. Set"),
        Wrong(GOOD, "os.path", {}, UnknownPluginError, "'os.path' does not exist"),
        Wrong(GOOD, "mine", {"sise": 1}, OptionError, "'sise' of pluginseam 'mine' does not"),
        Wrong(
            GOOD.replace("size: int = 3", "size: int"),
            "mine",
            {},
            OptionError,
            "Option size of pluginseam 'mine' is missing. Set it under",
        ),
        Wrong(GOOD, "mine", {"size": "x"}, OptionError, "Option size of pluginseam 'mine' is not"),
        Wrong(
            NESTED,
            "mine",
            {"inner": {"width": 12}},
            OptionError,
            "Option 'inner.width' of pluginseam 'mine' is 12. Allowed: 1 to 9. "
            "Correct it under seam.kind.inner.",
        ),
        Wrong(
            NESTED,
            "mine",
            {"inner": {"with": 2}},
            OptionError,
            "Option 'inner.with' of pluginseam 'mine' does not exist. Allowed: width. "
            "Correct or remove it under seam.kind.inner.",
        ),
        Wrong("import no_such_lib", "mine", {}, MissingExtraError, "needs the library 'no_such_l"),
        Wrong("x = 1", "mine", {}, BrokenPluginError, "does not define a dataclass Options"),
        Wrong(GOOD.replace("clock, m", "clok, m"), "mine", {}, BrokenPluginError, "'clok'"),
        Wrong(GOOD.replace("run(self)", "no(self)"), "mine", {}, BrokenPluginError, "no 'Runs'"),
    ],
    ids=[
        "unknown",
        "no path",
        "option",
        "missing",
        "type",
        "range in a table",
        "option in a table",
        "library",
        "no parts",
        "service",
        "contract",
    ],
)
def test_what_cannot_be_built_is_refused_with_what_fits(seam: Path, wrong: Wrong) -> None:
    (seam / "mine.py").write_text(wrong.file, encoding="utf-8")

    with pytest.raises(wrong.error) as caught:
        make("pluginseam", Runs, spec(wrong.name, **wrong.options), {"clock": 1})
    assert wrong.says in str(caught.value)


def test_a_missing_module_of_our_own_is_a_bug_and_no_missing_library(seam: Path) -> None:
    (seam / "mine.py").write_text("import toolgate.no_such_module", encoding="utf-8")

    with pytest.raises(ModuleNotFoundError):
        make("pluginseam", Runs, spec("mine"), {})


def test_whether_a_library_is_there_is_known_without_an_import(seam: Path) -> None:
    loads = "raise RuntimeError('imported')\n"
    (seam / "ready.py").write_text(f"import json\nimport pydantic.types\n{loads}", "utf-8")
    (seam / "lacking.py").write_text(f"from no_such_library.part import x\n{loads}", "utf-8")
    assert is_importable("pluginseam", "ready")
    assert not is_importable("pluginseam", "lacking")
    assert not is_importable("pluginseam", "absent")


@pytest.mark.parametrize(
    ("provider", "extras"),
    [
        ("openai", "langgraph,openai"),
        ("anthropic", "anthropic,langgraph"),
        ("google", "google,langgraph"),
        ("scripted", "chat"),
    ],
)
def test_one_hint_installs_all_that_a_chat_needs(
    provider: str, extras: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare installation named the library of the engine first, and then that of the model."""
    monkeypatch.delitem(sys.modules, "toolgate.chat.engines.langgraph", raising=False)
    for name in ("langgraph", "openai", "anthropic", "google"):
        parts = [part for part in sys.modules if part.startswith(f"{name}.")]
        for part in (name, *parts):
            monkeypatch.setitem(sys.modules, part, None)  # other tests may have imported them
    plugins.is_importable.cache_clear()
    engine = PluginSpec(name="langgraph", options={}, setting="chat.engine")
    try:
        with pytest.raises(MissingExtraError) as caught:
            plugins.check_installed("engine", engine, used_with={provider: "llm"})
    finally:
        plugins.is_importable.cache_clear()
    assert f"[{extras}]" in caught.value.hint
