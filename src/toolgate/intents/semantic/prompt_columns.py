"""Example prompts by column, to compare a message with by the few columns that it has."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolgate.intents.semantic.scores import Floats


class MessageRow:
    """What a message is classified by, prepared for comparison with prompts."""

    def __init__(self, whole: Floats, dim: int) -> None:
        grams = whole[dim:]
        self.whole = whole
        self.vector = whole[:dim]
        # A message has few of the n-grams: the other columns need not be read.
        self.used = grams.nonzero()[0]
        self.grams = grams[self.used]
        self.length = max(math.sqrt(float(whole @ whole)), 1e-9)


@dataclass(frozen=True, kw_only=True)
class PromptColumns:
    """Quantized rows by column, to multiply a few columns with."""

    vectors: Floats
    """Shape (dim, rows)."""

    grams: NDArray[np.int8]
    """Shape (COLUMNS, rows)."""

    steps: Floats
    """The factor of each row."""

    def products(self, row: MessageRow) -> tuple[Floats, Floats]:
        """Return the products of a message with each row: of the vectors, and of the whole rows.

        Those of the vectors lack the factor of the row.
        """
        alike: Floats = row.vector @ self.vectors
        whole: Floats = row.grams @ self.grams.take(row.used, axis=0).astype(np.float32)
        whole += alike
        whole *= self.steps
        return alike, whole
