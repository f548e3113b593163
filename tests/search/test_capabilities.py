"""What a tool can do, guessed from its words, beside the texts by which it is found."""

import pytest

from toolgate.search import SearchableTool
from toolgate.search.relevance.capabilities import capabilities_of
from toolgate.search.semantic.tool_vectors import texts_of


@pytest.mark.parametrize(
    ("tool", "text", "capabilities"),
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
            "Git Hub MCP search repositories: Search for GitHub repositories "
            "Parameters: query Search query string; sort Sort by stars/forks/updated; "
            "order Sort order asc/desc",
            ("search", "query", "code discovery", "repository lookup"),
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
            "Filesystem MCP read file: Read the contents of a file "
            "Parameters: path File path to read; encoding File encoding utf8/binary",
            ("file operations", "read", "content retrieval"),
        ),
    ],
    ids=["GitHub search", "file read"],
)
def test_the_examples_of_the_source_document(
    tool: SearchableTool, text: str, capabilities: tuple[str, ...]
) -> None:
    """Source document 003, appendix A; its capabilities are shown and not embedded."""
    assert texts_of(tool)[1] == text
    assert capabilities_of(tool.name, tool.description) == capabilities


@pytest.mark.parametrize(
    ("name", "description", "found"),
    [
        ("x", "", ()),
        ("", "", ()),
        ("createIssue", "", ("creation", "generation", "task management", "issue tracking")),
        ("t", "Lists all threads.", ("listing", "overview")),
        ("t", "Searching, finding.", ("search", "query")),
        ("t", "Adds two numbers.", ("calculation",)),
        ("t", "Adds a label.", ("creation",)),
        ("查询", "天气 \ud800 \x00", ()),
    ],
)
def test_whole_words_count_in_any_form(name: str, description: str, found: tuple[str, ...]) -> None:
    """`thread` has `read` in it and reads nothing."""
    assert capabilities_of(name, description) == found
