"""Run the benchmarks and print their tables: `python -m benchmarks [NAME …] [--quick] [--json]`."""

import argparse
import sys
from functools import partial
from importlib import import_module

from benchmarks._report import Report, print_all, run

NAMES = (
    "calls",
    "access",
    "audit",
    "console",
    "telemetry",
    "listing",
    "footprint",
    "large",
    "discovery",
    "tokens",
    "fallback",
    "intents",
    "turns",
    "documents",
)


def main() -> None:
    """Run those that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the figures are rough")
    given = parser.parse_args()
    unknown = set(given.names) - set(NAMES)
    if unknown:
        parser.error(f"There is no benchmark {sorted(unknown)}. Choose from {', '.join(NAMES)}.")
    names = given.names or NAMES
    print_all([partial(_measured, name, quick=given.quick) for name in names], as_json=given.json)


def _measured(name: str, *, quick: bool) -> Report:
    print(f"==> {name}", file=sys.stderr, flush=True)
    return run(import_module(f"benchmarks.{name}").measure, quick=quick)


main()
