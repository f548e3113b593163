"""Imports the Python files of packs from source, each pack under its own module name.

A module may import modules of its pack, `from . import orders` or `from ..shared import orders`;
nothing is added to `sys.path`, so packs do not see each other. A changed pack is imported again
under another name, and the modules of its previous version are removed.
"""

import importlib
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

_ROOT: Final = "toolgate_packs"
_numbers = count(1)


class PackModules:
    """The imported modules of one version of a pack."""

    def __init__(self, name: str, folder: Path) -> None:
        """Register the pack's folder as a package; no code runs yet."""
        _prepare()
        self._name = f"{_ROOT}.{re.sub(r'[^0-9A-Za-z]', '_', name)}_{next(_numbers)}"
        self._folder = folder
        package = ModuleType(self._name)
        package.__path__ = [str(folder)]
        sys.modules[self._name] = package

    def load(self, path: Path) -> ModuleType:
        """Import a file of the pack, which runs it.

        Raises:
            Exception: Any exception that the file raises.
        """
        parts = path.relative_to(self._folder).with_suffix("").parts
        return importlib.import_module(".".join((self._name, *parts)))

    def forget(self) -> None:
        """Remove the modules from `sys.modules`; running functions continue."""
        for name in [*sys.modules]:
            if name == self._name or name.startswith(f"{self._name}."):
                del sys.modules[name]


class _Loader(SourceFileLoader):
    """Compiles the source each time: the bytecode cache only compares timestamps in seconds."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 -- contract
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{_ROOT}."):
            return None
        details: Any = (_Loader, [".py"])
        for entry in path or ():
            spec = FileFinder(entry, details).find_spec(fullname)
            if spec is not None:
                return spec
        return None


def _prepare() -> None:
    if _ROOT in sys.modules:
        return
    package = ModuleType(_ROOT)
    package.__path__ = []
    sys.modules[_ROOT] = package
    sys.meta_path.append(_Finder())
