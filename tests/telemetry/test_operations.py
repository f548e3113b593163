"""What operators load speaks of metrics that there are."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from toolgate.telemetry import METRICS

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = json.loads((DOCS / "operations" / "grafana.json").read_text(encoding="utf-8"))
ALERTS = (DOCS / "operations" / "alerts.yml").read_text(encoding="utf-8")

_NAME = re.compile(r"\btoolgate_[a-z_]+")
_SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}
SCRAPED = {
    f"{metric.name}{suffix}" for metric in METRICS.values() for suffix in _SUFFIXES[metric.kind]
}


def _labels(query: str) -> set[tuple[str, str]]:
    """Names of metrics with the labels that a query asks of them."""
    found: set[tuple[str, str]] = set()
    for name, inside in re.findall(r"(toolgate_[a-z_]+)\{([^}]*)\}", query):
        found |= {(name, label) for label in re.findall(r"([a-z_]+)\s*[=!]", inside)}
    return found


QUERIES = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
] + re.findall(r"expr: (?:>\n)?((?:.|\n)*?)\n        (?:for|labels):", ALERTS)


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_asks_for_what_is_scraped(query: str) -> None:
    names = set(_NAME.findall(query)) - {"toolgate_"}
    assert names <= SCRAPED, names - SCRAPED
    for name, label in _labels(query):
        base = re.sub(r"_(total|bucket|sum|count)$", "", name)
        metric = METRICS.get(base) or METRICS[name]
        assert label in metric.labels, query


def test_the_dashboard_can_be_imported() -> None:
    assert DASHBOARD["title"] == "Toolgate"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) >= 15
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"]["uid"] == "${source}"
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"


def test_there_are_alerts_for_each_way_in_which_search_fails() -> None:
    for word in ("FallsBack", "EmbedderFails", "EmbeddingBacklog", "SearchSlow", "Breaker"):
        assert word in ALERTS


def test_the_page_lists_every_metric() -> None:
    spec = spec_from_file_location("generate_metrics", DOCS / "generate_metrics.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    assert page == module.operations(), "run: make docs"
