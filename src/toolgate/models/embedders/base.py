"""The contract of embedders. Knows nothing of models, tools or search."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Embedder", "Reads", "TextKind", "Vectors", "computes_at_once", "embedded", "is_remote"]

Reads: TypeAlias = Literal["english", "many"]
"""What languages a model was made for: `english` alone, or `many`."""

TextKind: TypeAlias = Literal["query", "document"]
"""`query`: what somebody asks for. `document`: what is to be found."""

Vectors: TypeAlias = NDArray[np.float32]
"""One row per text. The dot product of two rows is their cosine, in [-1, 1]."""


@runtime_checkable
class Embedder(Protocol):
    """Gives texts places in a space where what means the same is near.

    Duties, checked by `toolgate.testing.contracts.embedder`:

    * One row per text, in their order; no texts give shape `(0, dim)`.
    * float32, finite; a row has length 1, or 0 where the model can say nothing about the text.
    * A row depends on its text and kind alone: not on its neighbours, not on earlier calls.
    * Any string is a text, of any length and script; what is too long is cut.
    * Equal `identity` means equal vectors, in any process, on any day.
    * Many texts never hold up the event loop: computing goes to a thread. Few short ones may be
      computed on the spot, since handing them over costs more; `computes_at_once(texts)`, which it
      need not have, says of which this is true, and no deadline is set for those.
    * A service over a network says `is_remote = True`, which others need not have: searches give it
      more time.
    * What it keeps open, such as connections, ends with `aclose()`, which it need not have. It can
      be asked again afterwards, also in another event loop.
    """

    @property
    def identity(self) -> str:
        """The model and all that changes its vectors; stored vectors are kept under it."""
        ...

    @property
    def dim(self) -> int:
        """Numbers of a vector; at least 1, never changes."""
        ...

    @property
    def reads(self) -> Reads:
        """What it can read. In other languages and scripts than these search relies on words.

        Never raises: where only the model's files could tell and they cannot be read, `english`.
        """
        ...

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Vectors of shape `(len(texts), dim)`.

        Raises:
            EmbedderError: The model cannot be read, or the service behind it failed. Search goes
                on with words alone.
        """
        ...


def computes_at_once(embedder: Embedder, texts: Sequence[str]) -> bool:
    """Whether `embed` computes these texts on the spot, so that nothing has to be waited for.

    An embedder says so by a method `computes_at_once(texts)`, which it need not have.
    """
    says: Callable[[Sequence[str]], bool] | None = getattr(embedder, "computes_at_once", None)
    return says is not None and says(texts)


def is_remote(embedder: Embedder) -> bool:
    """Whether vectors come over a network; an embedder says so by an attribute `is_remote`."""
    return bool(getattr(embedder, "is_remote", False))


async def embedded(embedder: Embedder, texts: Sequence[str], kind: TextKind) -> Vectors:
    """Vectors of texts, checked: an embedder may be anybody's.

    Raises:
        EmbedderError: As `Embedder.embed`.
        ValueError: They are not what was promised.
    """
    rows = np.asarray(await embedder.embed(texts, kind), np.float32)
    shape = (len(texts), embedder.dim)
    if rows.shape != shape:
        raise ValueError(f"the embedder gave shape {rows.shape} instead of {shape}")
    if not np.isfinite(rows).all():
        raise ValueError("the embedder gave numbers that are not finite")
    return rows
