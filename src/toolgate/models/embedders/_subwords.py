"""Splits text into the subwords of a vector table, the same way as in training.

WordPiece (Schuster and Nakajima 2012, as in BERT): a word is split into its longest known
prefix, then the longest known continuation, and so on. This is plain Python, because the usual
library also installs a download client, and because words repeat: each is split once and cached.
"""

import re
import unicodedata
from collections.abc import Sequence

LONGEST = 256
"""Subwords after which a text is cut."""

_LONGEST_TEXT = 8_192
"""Characters of a text that are read: 256 subwords rarely need more than 2,000 (chosen)."""

_LONGEST_WORD = 64
"""Characters of a word; longer ones are binary data and count as unknown (chosen)."""

_REMEMBERED = 100_000
"""Cached words after which the cache is emptied: about 15 MB."""

_LATIN = "0-9A-Za-zÀ-ɏ"
_WORD = re.compile(rf"[{_LATIN}]+|[^\W_{_LATIN}]+|[^\w\s]")  # Latin, other scripts, signs
_PLAIN_WORD = re.compile(r"[0-9A-Za-z]+|[^\w\s]")  # the same in plain characters
_HUMP = re.compile(r"[a-z0-9][A-Z]|[A-Z][A-Z][a-z]")
_BEFORE_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MARK = re.compile("[\u0300-\u036f]")


class WordPieces:
    """Splits texts into numbered subwords, without case and accents; identifiers become words."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """Use these subwords; `##` marks continuations, subword 0 stands for all unknown words."""
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._words: dict[str, tuple[int, ...]] = {}

    def __call__(self, text: str) -> list[int]:
        """Return the numbers of the subwords in order, at most `LONGEST`."""
        plain = text[:_LONGEST_TEXT]
        if not plain.isascii():
            plain = _MARK.sub("", unicodedata.normalize("NFKD", plain))
        numbers: list[int] = []
        words = self._words
        for word in (_PLAIN_WORD if plain.isascii() else _WORD).findall(plain):
            numbers.extend(words.get(word) or self._remember(word))
            if len(numbers) >= LONGEST:
                break
        return numbers[:LONGEST]

    def _remember(self, word: str) -> tuple[int, ...]:
        if len(self._words) >= _REMEMBERED:
            self._words.clear()
        pieces = self._words[word] = self._cut_name(word)
        return pieces

    def _cut_name(self, word: str) -> tuple[int, ...]:
        """Return the subwords; `createIssue` is two words, `YouTube`, which is known, is one."""
        whole = self._cut(word.lower())
        if not _HUMP.search(word):
            return whole
        split = tuple(
            piece for part in _BEFORE_HUMP.split(word) for piece in self._cut(part.lower())
        )
        return split if whole == (0,) or len(split) <= len(whole) else whole

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            return (0,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(mark + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return (0,)
        return tuple(pieces)
