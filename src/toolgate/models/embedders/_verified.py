"""Verifies an embedder before its vectors are used."""

from collections.abc import Sequence

import anyio
import numpy as np

from toolgate.errors import EmbedderError
from toolgate.models.embedders.base import (
    Embedder,
    Reads,
    TextKind,
    Vectors,
    computes_at_once,
    embedded,
    is_remote,
)

NEAR = ("Send an e-mail to a colleague.", "Send a colleague a mail message.")
"""Two texts with the same meaning."""

FAR = "What will the weather be in Tokyo tomorrow?"
"""A text with a different meaning than both."""

_LENGTH_OFF = 1e-3
"""Largest deviation of a vector's length from 1 (chosen)."""
_APART = 0.02
"""Smallest difference between the cosines of similar and of different texts (chosen)."""


class VerifiedEmbedder:
    """An embedder that is tested with three known texts before its first use.

    A wrong file under the right name, or a service that returns another model's vectors or
    noise, gives vectors of the right shape that find nothing. Until the test passes, every
    request is refused, and each new one repeats the test.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._has_passed = False
        self._testing = anyio.Lock()

    @property
    def identity(self) -> str:
        """Identity of the embedder."""
        return self._embedder.identity

    @property
    def dim(self) -> int:
        """Dimension of the embedder."""
        return self._embedder.dim

    @property
    def reads(self) -> Reads:
        """Languages that the embedder reads."""
        return self._embedder.reads

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return the embedder's vectors, once it has passed the test.

        Raises:
            EmbedderError: The embedder failed, or its vectors fail the test.
        """
        if not self._has_passed:
            async with self._testing:
                if not self._has_passed:
                    await self._test()
                    self._has_passed = True
        return await self._embedder.embed(texts, kind)

    def computes_at_once(self, texts: Sequence[str]) -> bool:
        """Whether the test is passed and the embedder computes these texts without a thread."""
        return self._has_passed and computes_at_once(self._embedder, texts)

    @property
    def is_remote(self) -> bool:
        """Whether the embedder is a service over a network."""
        return is_remote(self._embedder)

    async def aclose(self) -> None:
        """Close the embedder's resources."""
        end = getattr(self._embedder, "aclose", None)
        if end is not None:
            await end()

    async def _test(self) -> None:
        try:
            rows = await embedded(self._embedder, (*NEAR, FAR), "document")
        except ValueError as error:
            raise _failed(str(error)) from error
        lengths = np.linalg.norm(rows, axis=1)
        if np.abs(lengths - 1).max() > _LENGTH_OFF:
            raise _failed(f"a vector has length {lengths[np.abs(lengths - 1).argmax()]:.3g}, not 1")
        near, far = float(rows[0] @ rows[1]), float(max(rows[0] @ rows[2], rows[1] @ rows[2]))
        if near < far + _APART:
            raise _failed(
                f"two sentences that mean the same have cosine {near:.2f}, "
                f"and {far:.2f} with one that does not"
            )


def _failed(reason: str) -> EmbedderError:
    return EmbedderError(
        f"The embedder does not pass its test: {reason}.",
        allowed="Search goes on with words alone.",
        hint="Check search.embedder and its options, then run: toolgate embedder test",
    )
