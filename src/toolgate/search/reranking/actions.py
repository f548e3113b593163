"""The actions of requests and tools (create, delete, open, list), and their opposites.

Meaning and words put "close the page" near a tool that opens one. The list of actions
(`actions.txt`) distinguishes them.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from toolgate.search.tokenizer import split_identifier, term_of, terms_of, words, words_of_request

Actions = frozenset[str]
"""Actions by the first column of the list."""

READING: Final = frozenset({"list", "get", "search", "compare", "count", "receive", "download"})
"""Actions that change nothing."""
CHANGING: Final = frozenset(
    {"create", "delete", "update", "write", "send", "move", "copy", "stop", "close", "upload"}
    | {"add", "commit", "revert", "install", "restart", "merge", "split", "lock", "react", "fill"}
    | {"click", "approve", "reject", "import", "archive"}
)
"""Actions that change something."""
_FIRST_WORDS: Final = 3
"""Number of first words of a request or a name that are searched for the action; chosen."""
_FIRST_OF_TEXT: Final = 2
"""Number of first words of a description, used if the name has no action; chosen."""


class _ActionList(NamedTuple):
    by_term: Mapping[str, Actions]
    opposites: frozenset[tuple[str, str]]


@cache
def _action_list() -> _ActionList:
    path = files("toolgate.search.reranking").joinpath("actions.txt")
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    end = lines.index("")
    by_term: dict[str, Actions] = {}
    for line in lines[:end]:
        action, _, said = line.partition(":")
        for word in said.split():
            by_term[term_of(word)] = by_term.get(term_of(word), frozenset()) | {action}
    pairs = [tuple(line.split()) for line in lines[end + 1 :]]
    return _ActionList(
        by_term,
        frozenset(pair for first, second in pairs for pair in ((first, second), (second, first))),
    )


def requested_actions(text: str) -> Actions:
    """Return the actions at the start of an English request."""
    return _said(terms_of(words_of_request(text)[:_FIRST_WORDS]))


def tool_actions(name: str, server: str, description: str) -> Actions:
    """Return the actions in a tool's name, or else at the start of its description."""
    of_server = set(terms_of(split_identifier(server)))
    every = terms_of(split_identifier(name))
    named = [term for term in every if term and term not in of_server] or every
    return _said(named[:_FIRST_WORDS]) or _said(terms_of(words(description[:80])[:_FIRST_OF_TEXT]))


def are_opposite(asked: Actions, done: Actions) -> bool:
    """Return whether a tool does the opposite of a requested action."""
    opposites = _action_list().opposites
    return any((one, other) in opposites for one in asked for other in done)


def _said(said: Iterable[str]) -> Actions:
    by_term = _action_list().by_term
    return frozenset[str]().union(*(by_term.get(term, frozenset()) for term in said))
