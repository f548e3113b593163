"""Assigns a search to each conversation: one for all, or two for an A/B test."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from toolgate.search.base import SearchableTool, SearchStrategy

_PARTS = 1_000_000
"""Number of buckets for conversations, so that a share can be set in steps of a ten-thousandth
of a percent."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A search that is assigned to conversations."""

    name: str
    """Its name in the settings: `off`, `bm25`, `hybrid`."""

    strategy: SearchStrategy
    """The search itself."""


class Experiment:
    """Assigns a search to each conversation, which keeps it while the share is unchanged.

    A larger share only adds conversations: those that have the main search keep it.
    """

    def __init__(
        self,
        *,
        main: Variant | None,
        control: Variant | None = None,
        share_percent: float = 100.0,
        further: Sequence[Variant] = (),
    ) -> None:
        """Create an experiment; `main` or `control` may be None if no conversation gets it.

        Args:
            main: The search of the conversations in the share.
            control: The search of all other conversations.
            share_percent: Percentage of conversations that get `main`.
            further: More searches, for conversations that request them by name.
        """
        assert main is not None or control is not None
        self.main = main
        """The search of the conversations in the share."""
        self.control = control
        """The search of all other conversations."""
        self._share_percent = share_percent
        self._further = tuple(further)

    @property
    def all(self) -> tuple[Variant, ...]:
        """All searches that conversations get."""
        compared = tuple(arm for arm in (self.main, self.control) if arm is not None)
        return compared + self._further

    def variant_for(self, conversation: Sequence[str], asked: str = "") -> Variant:
        """Return the search of a conversation, which all parts together identify.

        Args:
            conversation: Its name.
            asked: Name of the search that it requests; an unknown name is ignored.
        """
        for arm in self.all if asked else ():
            if arm.name == asked:
                return arm
        if self.main is None or self.control is None:
            return self.all[0]
        # A hash, not a random number: a conversation gets the same search in every process, and a
        # larger share only adds conversations.
        text = "\0".join(conversation).encode(errors="surrogatepass")
        slot = int.from_bytes(blake2b(text, digest_size=8).digest()) % _PARTS
        return self.main if slot < self._share_percent / 100 * _PARTS else self.control

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Set the tools of every search."""
        for arm in self.all:
            await arm.strategy.update(tools)
