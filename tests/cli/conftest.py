"""The command line as a shell starts it."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import TypeAlias

import pytest

Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]
"""`toolgate("search", "x", NO_COLOR="1")`: words of the command line, then variables."""

LoadedBy: TypeAlias = Callable[..., set[str]]
"""`loaded_by("import toolgate")`: names of the modules of a fresh process after a statement."""


@pytest.fixture
def toolgate(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The real program, in a process of its own."""

    def run(
        *argv: str, stdin: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name, value in {"COLUMNS": "80", **environment}.items():
                patch.setenv(name, value)
            return subprocess.run(
                [sys.executable, "-m", "toolgate", *argv],
                capture_output=True,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                encoding="utf-8",
                errors="replace",
                timeout=25,
                check=False,
            )

    return run


@pytest.fixture
def loaded_by(monkeypatch: pytest.MonkeyPatch) -> LoadedBy:
    """What a statement imports."""

    def run(statement: str, **environment: str) -> set[str]:
        code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            done = subprocess.run(
                [sys.executable, "-c", code],
                capture_output=True,
                text=True,
                timeout=25,
                check=True,
            )
        return set(json.loads(done.stdout.splitlines()[-1]))

    return run
