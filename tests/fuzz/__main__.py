"""Attack a gateway with machine-made inputs for as long as you like.

    python -m tests.fuzz [--count 100000] [--seed N]

The same seed gives the same inputs. A failing input is made small, printed, and saved in
`tests/fuzz/corpus`, with which every later run and `make test` begin.
"""

import argparse
import asyncio
import secrets
import sys

from tests.fuzz.campaign import Campaign, Failure, attack
from tests.fuzz.inputs import save_to_corpus


class _Progress:
    """Prints each failure as soon as it is known: a run can take hours."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, campaign: Campaign) -> None:
        rss = campaign.gateways_rss_mb[-1]
        print(  # noqa: T201
            f"{campaign.sent:,} inputs, {campaign.rate():.0f}/s, {rss:.0f} MB,"
            f" {len(campaign.failures)} failures",
            flush=True,
        )
        for failure in campaign.failures[self._shown :]:
            self._print(failure)
        self._shown = len(campaign.failures)

    def _print(self, failure: Failure) -> None:
        print(f"\nFAILED: {failure.fault}")  # noqa: T201
        print(failure.entry.to_json().decode())  # noqa: T201
        if failure.is_repeatable:
            print(f"saved as {save_to_corpus(failure.entry)}", flush=True)  # noqa: T201
        else:
            print("It does not fail alone: run the same seed again.", flush=True)  # noqa: T201


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description="Attack a gateway.")
    parser.add_argument("--count", type=int, default=100_000, help="inputs to send")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}; repeat with --seed {options.seed}", flush=True)  # noqa: T201
    campaign = asyncio.run(attack(options.count, seed=options.seed, on_progress=_Progress().show))
    print(f"statuses {dict(campaign.statuses.most_common())}")  # noqa: T201
    return bool(campaign.failures)


if __name__ == "__main__":
    sys.exit(main())
