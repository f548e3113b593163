"""What a request or a tool does: creates, deletes, opens, lists; and what is the opposite of it.

Meaning and words put "close the page" near to a tool that opens one. The list of actions
(`actions.txt`) tells them apart.
"""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple

from toolgate.search.tokenizer import split_identifier, term_of, words, words_of_request

__all__ = ["CHANGING", "READING", "Actions", "are_opposite", "requested_actions", "tool_actions"]

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
"""Words of a request or a name in which the action stands; chosen."""
_FIRST_OF_TEXT: Final = 2
"""The same of a description, for a name that says none; chosen."""
_REMEMBERED: Final = 8_192
"""Tools whose actions are remembered; chosen."""


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
    """The actions that an English request begins with."""
    return _said(term_of(word) for word in words_of_request(text)[:_FIRST_WORDS])


@lru_cache(maxsize=_REMEMBERED)
def tool_actions(name: str, server: str, description: str) -> Actions:
    """The actions that a tool's name says, or else its description begins with."""
    of_server = {term_of(word) for word in split_identifier(server)}
    every = [term_of(word) for word in split_identifier(name)]
    named = [term for term in every if term and term not in of_server] or every
    return _said(named[:_FIRST_WORDS]) or _said(
        term_of(word) for word in words(description[:80])[:_FIRST_OF_TEXT]
    )


def are_opposite(asked: Actions, done: Actions) -> bool:
    """Whether a tool does the opposite of something that is asked."""
    opposites = _action_list().opposites
    return any((one, other) in opposites for one in asked for other in done)


def _said(said: Iterable[str]) -> Actions:
    by_term = _action_list().by_term
    return frozenset[str]().union(*(by_term.get(term, frozenset()) for term in said))
