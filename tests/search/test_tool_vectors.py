"""The vectors of tools from one state of the catalog to the next."""

from toolgate.search import SearchableTool
from toolgate.search.semantic.tool_vectors import align_vectors


def test_a_catalog_that_was_empty_gets_its_first_tools() -> None:
    empty = align_vectors(None, [], 0, 4)
    tools = [SearchableTool(key="a:b", server="a", name="b", description="Add.", parameters=())]

    grown = align_vectors(empty, tools, 1, 4)

    assert grown.rows.shape == (1, 4)
    assert not grown.there.any()
