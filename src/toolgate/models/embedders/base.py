"""The contract of embedders. Knows nothing of models, tools or search."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Reads: TypeAlias = Literal["english", "many"]
"""Languages that a model was made for: `english` only, or `many`."""

TextKind: TypeAlias = Literal["query", "document"]
"""`query`: a search request. `document`: a text to be found."""

Vectors: TypeAlias = NDArray[np.float32]
"""One row per text. The dot product of two rows is their cosine, in [-1, 1]."""


@runtime_checkable
class Embedder(Protocol):
    """Maps texts to vectors, so that texts with similar meanings have similar vectors.

    Duties, checked by `toolgate.testing.contracts.embedder`:

    * One row per text, in the order of the texts; no texts give shape `(0, dim)`.
    * float32, finite; a row has length 1, or 0 if the model knows nothing about the text.
    * A row depends only on its text and kind: not on the other texts, not on earlier calls.
    * Any string is a valid text, of any length and script; texts that are too long are cut.
    * Equal `identity` means equal vectors, in any process, at any time.
    * Many texts never block the event loop: they are computed in a thread. A few short ones may
        be computed in the event loop, since a thread costs more; the optional method
        `computes_at_once(texts)` says for which texts that is so, and these get no deadline.
    * A service over a network sets the optional attribute `is_remote = True`: searches give it
        more time.
    * The optional method `aclose()` closes resources such as connections. The embedder can be
        used again afterwards, also in another event loop.
    """

    @property
    def identity(self) -> str:
        """The model and everything that changes its vectors; vectors are stored under this key."""
        ...

    @property
    def dim(self) -> int:
        """Dimension of the vectors; at least 1, never changes."""
        ...

    @property
    def reads(self) -> Reads:
        """Languages that it reads. For other languages and scripts, search relies on words.

        Never raises: if it depends on the model's files and they cannot be read, it is
        `english`.
        """
        ...

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return vectors of shape `(len(texts), dim)`.

        Raises:
            EmbedderError: The model cannot be read, or its service failed. Search continues with
                words alone.
        """
        ...


def computes_at_once(embedder: Embedder, texts: Sequence[str]) -> bool:
    """Return whether `embed` computes these texts in the event loop, without waiting.

    An embedder says so in a method `computes_at_once(texts)`, which is optional.
    """
    says: Callable[[Sequence[str]], bool] | None = getattr(embedder, "computes_at_once", None)
    return says is not None and says(texts)


def is_remote(embedder: Embedder) -> bool:
    """Return whether vectors come over a network, as the optional attribute `is_remote` says."""
    return bool(getattr(embedder, "is_remote", False))


async def embedded(embedder: Embedder, texts: Sequence[str], kind: TextKind) -> Vectors:
    """Return validated vectors of texts, since an embedder may be a third-party plugin.

    Raises:
        EmbedderError: See `Embedder.embed`.
        ValueError: The vectors violate the contract.
    """
    rows = np.asarray(await embedder.embed(texts, kind), np.float32)
    shape = (len(texts), embedder.dim)
    if rows.shape != shape:
        raise ValueError(f"the embedder gave shape {rows.shape} instead of {shape}")
    if not np.isfinite(rows).all():
        raise ValueError("the embedder gave numbers that are not finite")
    return rows
