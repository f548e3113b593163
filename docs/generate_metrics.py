"""Fills the table of metrics in `operations.md`: `python docs/generate_metrics.py`."""

import re
from pathlib import Path

from toolgate.telemetry import METRICS

PAGE = Path(__file__).parent / "operations.md"

_TABLE = re.compile(r"(<!-- metrics: begin -->\n).*?(<!-- metrics: end -->)", re.DOTALL)
_SUFFIX = {"counter": "_total", "gauge": "", "histogram": ""}


def operations() -> str:
    """Return the page with the metrics that the code has."""
    rows = ["| name | labels | description |", "|---|---|---|"]
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        description = (
            f"{metric.description} A histogram."
            if metric.kind == "histogram"
            else metric.description
        )
        rows.append(f"| `{metric.name}{_SUFFIX[metric.kind]}` | {labels} | {description} |")
    table = "\n".join(rows)
    return _TABLE.sub(lambda match: f"{match[1]}{table}\n{match[2]}", PAGE.read_text("utf-8"))


if __name__ == "__main__":
    PAGE.write_text(operations(), encoding="utf-8")
