"""A summary of the servers behind the gateway, in a few words from the names of their tools.

Agents ignore a search tool whose description is the same everywhere, so the description of
`tool_discovery` names what it searches. Only names of servers and tools are read: what a server
says about itself is not trusted here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log

from toolgate.base.token_estimate import estimate_tokens
from toolgate.search.answer.safe_text import clean, cut
from toolgate.search.tokenizer import split_identifier, terms, words

_TOPICS = 3
"""Most words shown for a server; chosen."""
_MAX_TOOLS = 200
"""Most tools of a server that are read; chosen."""
_MAX_WITH_TOPICS = 40
"""Most servers for which topics are shown; with more, their names alone fill the description."""
_NAME_CHARS = 32
"""Most characters of a server's name; chosen."""

_ACTION_WORDS = (
    "get list create update delete search set add remove read write find fetch query run execute "
    "start stop open close move copy rename edit insert append upload download send show describe "
    "check make put post patch new all by to of from in for with and or the is as on at into info "
    "details id ids multiple single many batch bulk current default next previous other tool tools "
    "api v1 v2 item items value values data object objects content contents result results"
)
_ACTIONS = frozenset(term for word in words(_ACTION_WORDS) for term in terms(word))
"""Words of tool names that name an action and not its object."""


def server_summary(tools: Mapping[str, Sequence[str]], *, max_tokens: int) -> str:
    """Return `github (issues, branches), slack (messages)`; empty without servers.

    The same servers with the same tools always give the same text.

    Args:
        tools: Names of the tools, by server.
        max_tokens: Most estimated tokens. Topics are dropped first, then the last servers.
    """
    if not tools:
        return ""
    topics = _topics(tools) if len(tools) <= _MAX_WITH_TOPICS else {}
    names = {server: cut(clean(server), _NAME_CHARS) for server in tools}
    for n_topics in range(_TOPICS, -1, -1):
        parts = [_part(names[server], topics.get(server, ())[:n_topics]) for server in tools]
        if estimate_tokens(text := ", ".join(parts)) <= max_tokens:
            return text
    for n_shown in range(len(tools) - 1, 0, -1):
        shown = ", ".join(list(names.values())[:n_shown])
        text = f"{shown} and {len(tools) - n_shown} more"
        if estimate_tokens(text) <= max_tokens:
            return text
    return ""


def _part(name: str, topics: Sequence[str]) -> str:
    return f"{name} ({', '.join(topics)})" if topics else name


def _topics(tools: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return words that are more common in a server's tool names than in those of others."""
    counts: dict[str, Counter[str]] = {}
    spelling: dict[str, str] = {}
    for server, names in tools.items():
        own = {term for word in split_identifier(server) for term in terms(word)}
        counter = counts[server] = Counter[str]()
        for name in names[:_MAX_TOOLS]:
            for word in map(str.lower, split_identifier(clean(name))):
                stem = terms(word)[0] if terms(word) else ""
                if len(word) > 2 and word.isalpha() and stem not in _ACTIONS | own:
                    counter[stem] += 1
                    # The longest spelling is the plural: of "issue" and "issues" the latter.
                    spelling[stem] = max(spelling.get(stem, ""), word, key=lambda w: (len(w), w))
    servers_with = Counter(stem for counter in counts.values() for stem in counter)
    rarity = {stem: log(1 + len(tools) / n) for stem, n in servers_with.items()}
    return {
        server: [
            cut(spelling[stem], _NAME_CHARS)
            for stem in sorted(counter, key=lambda stem: (-counter[stem] * rarity[stem], stem))
        ][:_TOPICS]
        for server, counter in counts.items()
    }
