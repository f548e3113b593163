"""What a tool can do, guessed from its words, and the description that says so."""

import pytest

from toolgate.search import SearchableTool
from toolgate.search._capabilities import capabilities_of, enriched


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (
            SearchableTool(
                key="github:search_repositories",
                server="GitHub MCP",
                name="search_repositories",
                description="Search for GitHub repositories",
                parameters=(
                    ("query", "Search query string"),
                    ("sort", "Sort by stars/forks/updated"),
                    ("order", "Sort order asc/desc"),
                ),
            ),
            "Tool: search repositories. Server: GitHub MCP. "
            "Description: Search for GitHub repositories. "
            "Parameters: query: Search query string, sort: Sort by stars/forks/updated, "
            "order: Sort order asc/desc. "
            "Capabilities: search, query, code discovery, repository lookup",
        ),
        (
            SearchableTool(
                key="filesystem:read_file",
                server="Filesystem MCP",
                name="read_file",
                description="Read the contents of a file",
                parameters=(
                    ("path", "File path to read"),
                    ("encoding", "File encoding utf8/binary"),
                ),
            ),
            "Tool: read file. Server: Filesystem MCP. Description: Read the contents of a file. "
            "Parameters: path: File path to read, encoding: File encoding utf8/binary. "
            "Capabilities: file operations, read, content retrieval",
        ),
    ],
    ids=["GitHub search", "file read"],
)
def test_the_examples_of_the_source_document(tool: SearchableTool, text: str) -> None:
    """Source document 003, appendix A."""
    assert enriched(tool) == text


@pytest.mark.parametrize(
    ("name", "description", "found"),
    [
        ("x", "", ()),
        ("", "", ()),
        ("createIssue", "", ("creation", "generation", "task management", "issue tracking")),
        ("t", "Lists all threads.", ("listing", "overview")),
        ("t", "Searching, finding.", ("search", "query")),
        ("查询", "天气 \ud800 \x00", ()),
    ],
)
def test_whole_words_count_in_any_form(name: str, description: str, found: tuple[str, ...]) -> None:
    """`thread` has `read` in it and reads nothing."""
    assert capabilities_of(name, description) == found


def test_a_tool_without_a_description_has_its_names() -> None:
    tool = SearchableTool(key="s:do_it", server="s", name="do_it", parameters=(("a", ""),))

    assert enriched(tool) == "Tool: do it. Server: s. Parameters: a"
