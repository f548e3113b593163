"""The question of a turn, for tool search and routing."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from toolgate.models.llm import Message

_LONG = 500
"""Characters from which a message is reduced to its request."""

_SHORT_WORDS = 4
"""Words up to which a question rarely stands on its own ("and in France?"; chosen)."""
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_REFERS = re.compile(
    r"\b(it|its|that|this|those|these|them|they|their|he|she|his|her|there|the (?:first|second|"
    r"third|last|other|same|previous) (?:one|\w+)|again|instead|also|too|more|above|both)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\?|^\s*(?:please\b|can you|could you|show|list|find|create|make|send|delete|remove|open|get|"
    r"tell|give|write|add|update|change|search|look|check|run|call|explain|summari[sz]e|translate|"
    r"compare|count|how|what|which|where|when|who|why)\b",
    re.IGNORECASE | re.MULTILINE,
)


def query_of(question: str, history: Sequence[Message]) -> str:
    """Return the query for tool search: the request of the message, completed if it refers back.

    A message refers back if it has words such as "it" or is very short; then the previous
    question is put in front.
    """
    cut = _request_in(question)
    before = next((message.text for message in reversed(history) if message.role == "user"), "")
    if not before.strip() or not cut:
        return cut
    if len(cut.split()) <= _SHORT_WORDS or _REFERS.search(cut):
        return f"{_request_in(before)[: _LONG // 2]} {cut}".strip()
    return cut


def _request_in(text: str) -> str:
    """Return the request in a long message, without pasted code and quotations."""
    if len(text) <= _LONG:
        return text.strip()
    plain = _CODE.sub(" ", text)
    blocks = [block.strip() for block in re.split(r"\n\s*\n", plain) if block.strip()]
    asking = [block for block in blocks if _ASKS.search(block) and not block.startswith(">")]
    # People ask before or after what they paste.
    chosen = [block for block in blocks if block in {*asking[:1], *asking[-1:]}] or blocks[:1]
    sentences = " ".join(chosen)
    return sentences[:_LONG].strip() if sentences else text[:_LONG].strip()


@cache
def _signals() -> Mapping[str, Mapping[str, Sequence[str]]]:
    file = resources.files("toolgate.chat.turns") / "signals.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def signals_of(question: str) -> tuple[str, list[str]]:
    """Classify a question by its words: `vecsearch`, `nl2sql`, `both`, or empty if uncertain.

    Also returns the signals found. A named source decides; otherwise words decide if they all
    point to the same.
    """
    low = " ".join(question.lower().split())
    words_by_signal: dict[str, list[str]] = {}
    named: set[str] = set()
    for path, kinds in _signals().items():
        for kind, words in kinds.items():
            hits = [word for word in words if re.search(rf"\b{re.escape(word)}\b", low)]
            if hits:
                words_by_signal.setdefault(path, []).extend(f"{path}: {word}" for word in hits)
                if kind == "sources":
                    named.add(path)
    signals = [signal for hits in words_by_signal.values() for signal in hits]
    if named == {"vecsearch", "nl2sql"}:
        return "both", signals
    if len(named) == 1:
        return next(iter(named)), signals
    if len(words_by_signal) == 1:
        return next(iter(words_by_signal)), signals
    return "", signals
