"""Splits text into the subwords of a vector table, the same way as in training.

WordPiece (Schuster and Nakajima 2012, as in BERT): a word is its longest known beginning, then the
longest known continuation, and so on. In plain Python, since the library that does it brings a
client for downloads along, and since words repeat: each is cut once and remembered.
"""

import re
import unicodedata
from collections.abc import Sequence

__all__ = ["LONGEST", "WordPieces"]

LONGEST = 256
"""Pieces of a text that count."""

_LONGEST_TEXT = 8_192
"""Characters that are looked at: 256 pieces rarely take more than 2,000; chosen."""

_LONGEST_WORD = 64
"""Characters of a word; longer ones are blobs and count as unknown; chosen."""

_REMEMBERED = 100_000
"""Words that are remembered before all are forgotten: some 15 MB."""

_LATIN = "0-9A-Za-zÀ-ɏ"
_WORD = re.compile(rf"[{_LATIN}]+|[^\W_{_LATIN}]+|[^\w\s]")  # Latin, other scripts, signs
_PLAIN_WORD = re.compile(r"[0-9A-Za-z]+|[^\w\s]")  # the same in plain characters
_HUMP = re.compile(r"[a-z0-9][A-Z]|[A-Z][A-Z][a-z]")
_BEFORE_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MARK = re.compile("[\u0300-\u036f]")


class WordPieces:
    """Cuts texts into numbered pieces: no case, no accents, identifiers in words."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """Take the pieces; `##` marks continuations, and piece 0 stands for all unknown words."""
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._words: dict[str, tuple[int, ...]] = {}

    def __call__(self, text: str) -> list[int]:
        """Numbers of the pieces in their order, `LONGEST` at most."""
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
        """The pieces; `createIssue` is cut as two words, `YouTube`, a known one, as one."""
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
