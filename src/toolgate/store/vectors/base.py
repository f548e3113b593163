"""The contract of vector stores for tools. Knows nothing of models, catalogs or search.

A vector belongs to a text, which is known by its hash, within the space of a model: equal texts of
any number of tools, servers and projects share one vector. Which tool has which text is kept beside
it, so that vectors go when the last tool of theirs has gone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "HASH_BYTES",
    "HalfRows",
    "PutRows",
    "TextLink",
    "TextMatch",
    "VectorCounts",
    "VectorSpace",
    "VectorStore",
]

HASH_BYTES = 16
"""Length of the hash of a text."""

HalfRows: TypeAlias = NDArray[np.float16]
"""Vectors as they are kept: one row per text."""

PutRows: TypeAlias = Callable[[NDArray[np.int64], HalfRows], None]
"""Takes vectors that were read: positions among the hashes asked for, and their rows. Called in
another thread, some thousands at a time."""


@dataclass(frozen=True, kw_only=True)
class VectorSpace:
    """The vectors of one model. Those of two spaces cannot be compared and never meet."""

    model: str
    """Identity of the model and of all else that shapes its vectors."""

    dim: int
    """Numbers of a vector; 1 to 65,535."""


@dataclass(frozen=True, kw_only=True)
class TextLink:
    """That a tool has a text."""

    tool: str
    """Its name on its server."""

    text_hash: bytes
    """Of the text that is embedded; `HASH_BYTES` long."""

    description: str = ""
    """What the server says of the tool."""

    enriched: str = ""
    """The text that is embedded."""

    definition_hash: str = ""
    """Changes with the tool's definition, its input schema included."""


@dataclass(frozen=True, kw_only=True)
class TextMatch:
    """A text that is near to a request."""

    text_hash: bytes
    """Which one."""

    cosine: float
    """In [-1, 1], higher is nearer."""


@dataclass(frozen=True, kw_only=True)
class VectorCounts:
    """How much is kept."""

    vectors: int
    """Vectors of the space."""

    vectors_of_other_models: int
    """Vectors of all other spaces."""

    tools: int
    """Tools of the project that have a text here."""

    servers: int
    """Servers of the project that have a tool here."""


@runtime_checkable
class VectorStore(Protocol):
    """Keeps vectors of texts and finds near ones.

    Duties, checked by `toolgate.testing.contracts.vectors` on SQLite and PostgreSQL:

    * Vectors are kept as float16; what is read is what was saved, to the bit.
    * A row that is damaged (cut off, of another dimension, not finite) is as if it were not there,
      and saving its text again repairs it.
    * `save` and `link` are all or nothing, also after a kill; what is there and equal is not
      written again.
    * Spaces and projects never see each other's rows.
    * Two processes may use one place at the same time: what one has saved, the other reads.
    * Methods never block the event loop. A failure raises `StoreError` and leaves it usable.
    """

    @property
    def notice(self) -> str:
        """What a person should know of this place, such as a missing extension; may be empty."""
        ...

    async def load(self, space: VectorSpace, hashes: Sequence[bytes], put: PutRows) -> None:
        """Hand over the vectors of these texts, as far as they are there."""
        ...

    async def known(self, space: VectorSpace, hashes: Sequence[bytes]) -> NDArray[np.bool_]:
        """Which of these texts have a vector; does not look at the vectors themselves."""
        ...

    async def save(self, space: VectorSpace, hashes: Sequence[bytes], rows: HalfRows) -> int:
        """Keep vectors; gives how many were new or different.

        Args:
            space: Where they belong.
            hashes: One for each row, all different.
            rows: Shape (len(hashes), dim), finite.
        """
        ...

    async def nearest(
        self,
        space: VectorSpace,
        query: NDArray[np.float32],
        *,
        limit: int,
        allowed: Sequence[bytes] | None = None,
    ) -> list[TextMatch]:
        """The nearest texts, best first; equal ones in order of their hash.

        Args:
            space: Where to look.
            query: The vector of a request; of any length above zero.
            limit: How many, 1 to 10,000.
            allowed: Only among these, however far they are; None: among all. A place may find
                less than the very best when all are allowed, never when they are named.
        """
        ...

    async def settle(self, space: VectorSpace) -> None:
        """Prepare for `nearest` after many were saved, such as building an index; may be slow."""
        ...

    async def link(self, project_id: str, server: str, links: Sequence[TextLink]) -> int:
        """Make these the tools of a server; gives how many rows that changed."""
        ...

    async def links(self, project_id: str) -> dict[str, dict[str, bytes]]:
        """Hashes of texts by server and tool."""
        ...

    async def texts(self, project_id: str, server: str, tool: str) -> str | None:
        """The text of a tool that was embedded; None: it is not known."""
        ...

    async def unlink(self, project_id: str, server: str) -> int:
        """Forget the tools of a server, with the vectors that no other tool has.

        Gives:
            How many tools it had.
        """
        ...

    async def prune(self, *, before: str) -> int:
        """Remove vectors of texts that no tool has, and of models that nobody uses.

        Args:
            before: UTC, ISO 8601; what was written or used since then stays.

        Gives:
            How many vectors were removed.
        """
        ...

    async def counts(self, space: VectorSpace, project_id: str) -> VectorCounts:
        """How much is kept."""
        ...
