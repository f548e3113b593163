"""The teacher's vocabulary without the pieces that a table cannot represent.

The teacher reads only English: pieces in other scripts, and reserved ones, would be noise. Texts in
such scripts get a zero vector from the table, and search by words decides.
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
    """Word pieces and where they came from."""

    pieces: tuple[str, ...]
    """Piece 0 stands for everything unknown; `##` marks continuations."""

    origin: tuple[int, ...]
    """Index of each piece in the teacher's vocabulary."""


def reduced(teacher: Path) -> Vocabulary:
    """Load the vocabulary from the teacher's folder, shortened and renumbered."""
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
