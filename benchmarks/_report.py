"""A benchmark's figures as a table or as JSON, with the machine they were measured on."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from toolgate import __version__

_LIBRARIES = ("mcp", "aiohttp", "uvicorn", "orjson", "SQLAlchemy", "numpy")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A promised figure, and what was measured."""

    what: str
    """What is measured, with its unit."""

    measured: float
    """The measured figure."""

    limit: float
    """The promised figure."""

    at_least: bool = False
    """Whether higher is better; otherwise lower is."""

    @property
    def met(self) -> bool:
        """Whether this run keeps the promise."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of one benchmark."""

    name: str
    """Name of its module."""

    title: str
    """What it measures, as a sentence without the full stop."""

    rows: Sequence[Mapping[str, Any]]
    """The table; the keys of the first row are its header."""

    targets: Sequence[Target] = ()
    """The promised figures."""

    notes: Sequence[str] = ()
    """What a reader has to know."""

    load: tuple[float, float] = field(default=(0.0, 0.0))
    """One-minute load of the machine before and after; filled in by `main`."""


Measure = Callable[[bool], Report]
"""A benchmark; its argument chooses the quick form."""


def surroundings() -> dict[str, Any]:
    """Return the machine, the date and the versions."""
    return {
        "machine": {
            "cpu": _cpu_name(),
            "cores": os.cpu_count(),
            "memory_mb": round(psutil.virtual_memory().total / 2**20),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        },
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "toolgate": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
    }


def main(name: str, measure: Measure) -> None:
    """Run the command line of a benchmark that has no options of its own."""
    print_measured(parser_of(name).parse_args(), measure)


def parser_of(name: str = "") -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks share.

    Args:
        name: Name of the benchmark; empty for the program that runs several.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks" + (f".{name}" if name else ""))
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument(
        "--quick", action="store_true", help="a few seconds; says that it runs, no more"
    )
    return parser


def print_measured(options: argparse.Namespace, *measures: Measure) -> None:
    """Measure according to the shared options, and print."""
    print_all(
        [partial(run, measure, quick=options.quick) for measure in measures],
        as_json=options.json,
    )


def run(measure: Measure, *, quick: bool) -> Report:
    """Measure, and record the load of the machine before and after."""
    before = os.getloadavg()[0]
    report = measure(quick)
    return replace(report, load=(round(before, 2), round(os.getloadavg()[0], 2)))


def print_all(measurements: Sequence[Callable[[], Report]], *, as_json: bool) -> None:
    """Measure, and print as JSON or as tables; each table is printed as soon as it is complete."""
    around = surroundings()
    if as_json:
        reports = [_as_json(measured()) for measured in measurements]
        print(json.dumps({**around, "benchmarks": reports}, indent=2))
        return
    machine, versions = around["machine"], around["versions"]
    print(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_mb']} MB, "
        f"{machine['system']}\n{around['date']}, "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
    )
    for measured in measurements:
        _print(measured())
        sys.stdout.flush()


def _as_json(report: Report) -> dict[str, Any]:
    targets = [{**asdict(target), "met": target.met} for target in report.targets]
    return {
        "benchmark": report.name,
        "title": report.title,
        "load": report.load,
        "rows": [dict(row) for row in report.rows],
        "targets": targets,
        "notes": list(report.notes),
    }


def _print(report: Report) -> None:
    print(f"\n{report.title} (load {report.load[0]} to {report.load[1]})")
    if report.rows:
        _print_table(list(report.rows[0]), [list(row.values()) for row in report.rows])
    if report.targets:
        print()
        sign = {True: ">=", False: "<="}
        rows = [
            [t.what, t.measured, f"{sign[t.at_least]} {t.limit:g}", "met" if t.met else "MISSED"]
            for t in report.targets
        ]
        _print_table(["target", "measured", "promised", ""], rows)
    for note in report.notes:
        print(f"  {note}")


def _print_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    cells = [[_shown(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
    is_text = [all(isinstance(row[i], str) for row in rows) for i in range(len(head))]
    for line in [list(head), *cells]:
        aligned = [
            value.ljust(width) if left else value.rjust(width)
            for value, width, left in zip(line, widths, is_text, strict=True)
        ]
        print("  " + "  ".join(aligned).rstrip())


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown CPU"
