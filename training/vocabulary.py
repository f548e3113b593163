"""The teacher's vocabulary without the pieces that a table cannot say anything about.

The teacher reads English alone: pieces in other scripts, and reserved ones, would carry noise.
Texts in such scripts get a vector of zeros from the table, and search by words decides.
"""

import unicodedata
from dataclasses import dataclass
from pathlib import Path

LAST_LATIN = 0x24F
"""Last letter of the Latin blocks."""

UNKNOWN = "[UNK]"
"""Name of piece 0."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Pieces of words and where they came from."""

    pieces: tuple[str, ...]
    """Piece 0 stands for all that is unknown; `##` marks continuations."""

    origin: tuple[int, ...]
    """Number of each piece with the teacher."""


def reduced(teacher: Path) -> Vocabulary:
    """The vocabulary in the teacher's folder, shortened and numbered anew."""
    known = (teacher / "vocab.txt").read_text("utf-8").splitlines()
    kept = [number for number, piece in enumerate(known) if _is_kept(piece)]
    origin = (known.index(UNKNOWN), *kept)
    return Vocabulary(pieces=tuple(known[number] for number in origin), origin=origin)


def _is_kept(piece: str) -> bool:
    if len(piece) > 2 and piece.startswith("[") and piece.endswith("]"):
        return False  # [PAD], [unused17]
    return all(
        ord(letter) <= LAST_LATIN or unicodedata.category(letter)[0] in "SP" for letter in piece
    )
