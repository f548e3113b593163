"""What a request asks to be done decides between tools that share its words."""

import pytest

from tests.search.patient import PATIENT
from toolgate.models.embedders.bundled import BundledEmbedder
from toolgate.search import SearchableTool, SearchRequest
from toolgate.search.relevance.typical_requests import typical_requests
from toolgate.search.reranking.actions import are_opposite, requested_actions, tool_actions
from toolgate.search.strategies.hybrid import HybridSearch, Options, build


def tool(name: str, description: str, server: str = "app") -> SearchableTool:
    return SearchableTool(
        key=f"{server}:{name}", server=server, name=name, description=description, digest=name
    )


PAIRS = [
    ("open_tab", "Open a tab.", "close_tab", "Close a tab.", "open a tab", "close the tab"),
    (
        "export_notes",
        "Export notes to a file.",
        "import_notes",
        "Import notes from a file.",
        "export my notes",
        "import notes",
    ),
    (
        "create_label",
        "Create a label for issues.",
        "delete_label",
        "Delete a label of issues.",
        "make a label",
        "get rid of a label",
    ),
    (
        "enable_alert",
        "Enable an alert rule.",
        "disable_alert",
        "Disable an alert rule.",
        "activate the alert",
        "turn off the alert",
    ),
]


async def search_over(tools: list[SearchableTool], options: Options = PATIENT) -> HybridSearch:
    search = build(options, embedder=BundledEmbedder())
    await search.update(tools)
    await search.ready()
    return search


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
async def test_the_first_hit_is_not_the_opposite(pair: tuple[str, ...]) -> None:
    first, says_first, second, says_second, asks_first, asks_second = pair
    search = await search_over([tool(first, says_first), tool(second, says_second)])
    for request, name in ((asks_first, first), (asks_second, second)):
        answer = await search.search(SearchRequest(queries=(request,)))
        assert answer.hits[0].key == f"app:{name}"


@pytest.mark.parametrize(
    ("request_text", "name", "opposite"),
    [
        ("close the page", "browser_open", True),
        ("remove a user", "create_user", True),
        ("list users", "list_users", False),
        ("close the page", "close_page", False),
        ("open a bug", "create_issue", False),
    ],
)
def test_opposites_are_told(request_text: str, name: str, opposite: bool) -> None:
    asked, done = requested_actions(request_text), tool_actions(name, "x", "")
    assert (not asked & done and are_opposite(asked, done)) == opposite


async def test_scores_are_dealt_out_anew_and_none_is_lost() -> None:
    tools = [tool(f"{verb}_page", f"{verb.title()} a page.") for verb in ("open", "close", "move")]
    plain = await search_over(tools, Options(**{**vars(PATIENT), "reranking": False}))
    learned = await search_over(tools)
    request = SearchRequest(queries=("close the page",))
    before, after = await plain.search(request), await learned.search(request)
    assert {hit.key for hit in before.hits} == {hit.key for hit in after.hits}
    assert sorted(hit.fields["score"] for hit in before.hits) == sorted(
        hit.fields["score"] for hit in after.hits
    )
    assert [hit.relevance for hit in after.hits] == sorted(
        (hit.relevance for hit in after.hits), reverse=True
    )


async def test_a_request_finds_the_tool_that_it_has_no_word_of() -> None:
    tools = [
        tool("web_search", "Search the web for any topic.", "exa"),
        tool("insert_line_near_text", "Insert a line near a text of a document.", "word"),
        tool("create_shop", "Create a shop of the store.", "store"),
        tool("get_time", "Get the current time.", "time"),
    ]
    search = await search_over(tools)
    answer = await search.search(SearchRequest(queries=("restaurants near the station",)))
    assert answer.hits[0].key == "exa:web_search"


async def test_long_requests_keep_their_own_vector() -> None:
    embedder = BundledEmbedder()
    typical = await typical_requests(embedder)
    assert typical is not None
    (vector,) = await embedder.embed(["coffee shops near the station"], "query")
    moved = typical.meaning("coffee shops near the station", vector)
    assert moved @ moved == pytest.approx(1, abs=1e-5)
    assert moved @ vector < 0.999
    assert typical.meaning("word " * 20, vector) is vector
