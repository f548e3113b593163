"""Bytecode of libraries that are imported only later, when the gateway writes none any more."""

import marshal
import resource
import signal
import sys
from pathlib import Path

import pytest

from toolgate.base.lazy_loading import cache_bytecode


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that was installed without bytecode and is not imported yet."""
    folder = tmp_path / "imported_later"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "part.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return folder


def test_packages_without_bytecode_are_compiled_but_not_imported(library: Path) -> None:
    cache_bytecode(library.name)

    compiled = {path.name.partition(".")[0] for path in library.glob("__pycache__/*.pyc")}
    assert compiled == {"__init__", "part"}
    assert library.name not in sys.modules


def test_packages_with_bytecode_are_left_alone(library: Path) -> None:
    cache_bytecode(library.name)
    (library / "added.py").touch()

    cache_bytecode(library.name)

    assert not list(library.glob("__pycache__/added*"))


def test_bytecode_is_written_whole_or_not_at_all(library: Path) -> None:
    """As on a full disk, of which Python before 3.12.8 does not tell."""
    (library / "large.py").write_text("\n".join(f"value_{i} = {i}" for i in range(5_000)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        cache_bytecode(library.name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    files = list((library / "__pycache__").iterdir())
    assert {path.name.partition(".")[0] for path in files} == {"__init__", "part"}
    for path in files:
        marshal.loads(path.read_bytes()[16:])
