"""How much each field of a tool counts in a search by words."""

from dataclasses import dataclass, fields
from typing import TypedDict

from toolgate.base.validation import check_ranges
from toolgate.search.lexical.postings import (
    Weights,
)


@dataclass(frozen=True, kw_only=True)
class WordWeights:
    """Weights of words, by field.

    BM25 with weighted fields: Robertson, Zaragoza, Taylor 2004,
    https://doi.org/10.1145/1031171.1031181. The defaults are fitted to all labelled sets.
    """

    k1: float = 1.6
    """How much the repetition of a word counts; 0 to 10, 0 counts it once."""

    b: float = 0.75
    """How much a long text counts against a tool; 0 (not) to 1 (fully)."""

    name_weight: float = 5.0
    """Weight of the tool's name; 0 to 100."""

    title_weight: float = 1.0
    """Weight of its title."""

    server_weight: float = 1.5
    """Weight of the name of its server."""

    description_weight: float = 1.0
    """Weight of its description."""

    parameter_weight: float = 1.0
    """Weight of the names of its parameters."""

    parameter_text_weight: float = 0.75
    """Weight of the descriptions of its parameters."""

    def __post_init__(self) -> None:
        weights = {item.name: (0, 100) for item in fields(WordWeights)}
        check_ranges(self, {**weights, "k1": (0, 10), "b": (0, 1)})

    def of_fields(self) -> "FieldWeights":
        """Return the same weights as arguments of `build_segment`."""
        weights = (
            self.name_weight,
            self.title_weight,
            self.server_weight,
            self.description_weight,
            self.parameter_weight,
            self.parameter_text_weight,
        )
        return {"weights": weights, "k1": self.k1, "b": self.b}


class FieldWeights(TypedDict):
    """Weights of words, in the order of the fields."""

    weights: Weights
    k1: float
    b: float
