"""Stop words of requests, and whether a request is in English.

This is no language detector: it looks for the stop words of about thirty languages, which hardly
any sentence lacks. A request without any, such as `Rechnung erstellen`, is taken as English,
which costs little.
"""

import json
from collections import Counter
from functools import lru_cache
from pathlib import Path

from toolgate.search.tokenizer import IGNORED, fold, words_of_request

STOP_WORDS = {
    code: frozenset(map(fold, small.split()))
    for code, small in json.loads(
        Path(__file__).with_name("stop_words.json").read_text(encoding="utf-8")
    ).items()
}
"""Stop words by language code (ISO 639-1), folded."""
_LANGUAGES: dict[str, list[str]] = {}
for _code, _small in STOP_WORDS.items():
    for _word in _small:
        _LANGUAGES.setdefault(_word, []).append(_code)
_NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=64)
def stop_words_of(text: str) -> frozenset[str]:
    """Return the stop words of a text's language, folded; empty for English or unknown languages.

    A text must have two stop words of a language, and more than twice as many as English ones,
    because English requests name songs and streets. If several languages have equally many, as
    related ones do, the stop words of all of them are returned.
    """
    folded = set(map(str.lower if text.isascii() else fold, words_of_request(text)))
    least = max(1, 2 * len(folded & IGNORED))
    if sum(map(_LANGUAGES.__contains__, folded)) <= least:
        return _NONE  # however these are shared out
    counts = Counter(code for word in folded for code in _LANGUAGES.get(word, ()))
    highest = max(counts.values(), default=0)
    if highest <= least:
        return _NONE
    return _NONE.union(*(STOP_WORDS[code] for code, count in counts.items() if count == highest))
