"""Run benchmarks and print their tables: `python -m benchmarks [NAME …] [--quick] [--json]`."""

import sys
from importlib import import_module

from benchmarks._report import Measure, Report, parser_of, print_measured

NAMES = (
    "calls",
    "call_path",
    "access",
    "audit",
    "console",
    "telemetry",
    "listing",
    "footprint",
    "large",
    "discovery",
    "tokens",
    "phrases",
    "scanner",
    "fallback",
    "intents",
    "intent_messages",
    "small_packs",
    "turns",
    "documents",
    "company_documents",
)
"""The benchmarks that `make bench` runs."""

LONG_NAMES = (
    "ablation",
    "client_search",
    "learning",
    "memory",
    "on_demand",
    "programs",
    "scale",
    "soak",
    "tail",
    "token_estimate",
)
"""Run only when named: they take long, or need data that is not in the repository."""


def main() -> None:
    """Run the named benchmarks, or all except the long ones."""
    parser = parser_of()
    every = (*NAMES, *LONG_NAMES)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(every))
    options = parser.parse_args()
    if unknown := set(options.names) - set(every):
        parser.error(f"There is no benchmark {sorted(unknown)}. Choose from {', '.join(every)}.")
    print_measured(options, *map(_measure_of, options.names or NAMES))


def _measure_of(name: str) -> Measure:
    def measure(quick: bool) -> Report:
        print(f"==> {name}", file=sys.stderr, flush=True)
        return import_module(f"benchmarks.{name}").measure(quick)

    return measure


if __name__ == "__main__":
    main()
