"""Every benchmark still runs: its quick form, for the sake of running and not for its figures."""

import json
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import benchmarks
from benchmarks import _stores
from benchmarks.__main__ import LONG_NAMES, NAMES
from benchmarks._report import Report, print_all, run
from tests.postgres import PostgresServer
from tests.real import processes
from tests.real.processes import RunningGateway
from toolgate.intents import SemanticStage
from toolgate.models.embedders.onnx import OnnxEmbedder

FOLDER = Path(benchmarks.__file__).parent
PROGRAMS = {"document_questions", "menu_server", "plain_proxy", "server_farm"}
"""One wants documents that do not come along; the others are servers."""


@pytest.mark.real
@pytest.mark.no_cover  # measuring coverage doubles the time, and these tests assert no behaviour
@pytest.mark.parametrize("name", sorted({*NAMES, *LONG_NAMES} - {"soak", "tail"}))
def test_the_quick_form_of_each_benchmark_gives_its_tables(
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    postgres: PostgresServer,
) -> None:
    """`soak` and `tail` have tests of their own, in `tests/soak` and `test_tail.py`."""
    monkeypatch.setattr(_stores, "running_server", lambda: nullcontext(postgres))
    started = processes.gateway

    def forked_gateway(
        folder: Path, servers: Any, settings: Any, env: Any, *, prelude: str | None
    ) -> AbstractContextManager[RunningGateway]:
        """Without the imports; variables are for an interpreter of its own."""
        return started(folder, servers, settings, env, prelude=prelude if env else "")

    monkeypatch.setattr(processes, "gateway", forked_gateway)
    whole_background = SemanticStage._background_of

    def small_background(own: SemanticStage, *of: Any) -> tuple[tuple[tuple[str, int], ...], str]:
        """A model whose vectors no other test computes trains against few messages, of 10,000."""
        background, digest = whole_background(own, *of)
        if isinstance(own.embedder, OnnxEmbedder):
            return background[::50], f"{digest}-small"
        return background, digest

    monkeypatch.setattr(SemanticStage, "_background_of", small_background)

    report = run(import_module(f"benchmarks.{name}").measure, quick=True)

    assert report.name == name
    assert report.rows
    assert {tuple(row) for row in report.rows} == {tuple(report.rows[0])}, "rows differ in columns"
    print_all([lambda: report], as_json=False)
    assert report.title in capsys.readouterr().out


def test_every_benchmark_can_be_named() -> None:
    modules = {path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_")}

    assert modules - PROGRAMS == {*NAMES, *LONG_NAMES}


def test_reports_are_printed_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(name="small", title="Something", rows=[{"what": "a", "value": 1.5}])

    print_all([lambda: report], as_json=True)

    assert json.loads(capsys.readouterr().out)["benchmarks"][0]["rows"] == [dict(report.rows[0])]
