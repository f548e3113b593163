"""Whether the tools that are there are of the kind that a request wants."""

import pytest

from tests.search.patient import PATIENT
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchAnswer, SearchRequest
from toolgate.search.strategies.hybrid import build

FILES = (
    SearchableTool(key="f:read_file", server="f", name="read_file", description="Read a file."),
    SearchableTool(
        key="f:move_file", server="f", name="move_file", description="Move or rename a file."
    ),
    SearchableTool(
        key="w:add_table", server="w", name="add_table", description="Add a table to a document."
    ),
)
LIGHTS = SearchableTool(
    key="h:set_light",
    server="h",
    name="set_light",
    description="Switch lights of a room on or off, and set brightness and colour.",
)
TABLES = SearchableTool(
    key="r:make_reservation",
    server="r",
    name="make_reservation",
    description="Book a table at a restaurant for a number of guests.",
)


async def asked(query: str, *more: SearchableTool) -> SearchAnswer:
    """What a catalog of files and documents answers, with some more tools."""
    search = build(PATIENT, embedder=BundledEmbedder())
    await search.update((*FILES, *more))
    await search.ready()
    answer = await search.search(SearchRequest(queries=(query,)))
    await search.aclose()
    return answer


@pytest.mark.parametrize(
    ("query", "tool"),
    [("dim the lamp in the hall", LIGHTS), ("get us dinner for six at the bistro", TABLES)],
    ids=["lights", "restaurant"],
)
async def test_an_everyday_request_fits_where_a_tool_serves_it(
    query: str, tool: SearchableTool
) -> None:
    """Everyday kinds speak against the tools that are there, unless a tool is of that kind."""
    unserved, served = await asked(query), await asked(query, tool)

    assert unserved.fit == "none"
    assert served.hits[0].key == tool.key
    assert served.fit != "none"
    assert served.hits[0].fields["kind_everyday"] < unserved.hits[0].fields["kind_everyday"]
    for name in ("kind_lead", "kind_served", "kind_agreement"):
        assert served.hits[0].fields[name] > unserved.hits[0].fields[name]


async def test_a_request_for_what_the_tools_do_is_nearest_to_their_kind() -> None:
    answer = await asked("give this file another name")

    assert answer.hits[0].key == "f:move_file"
    assert answer.hits[0].fields["kind_lead"] > 0
    assert answer.fit != "none"
