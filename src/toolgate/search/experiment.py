"""Which search a conversation gets: one for all, or two side by side while one is tried out."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from toolgate.search.base import SearchableTool, SearchStrategy

__all__ = ["Experiment", "Variant"]

_PARTS = 1_000_000
"""Parts into which conversations fall: a share has a ten-thousandth of a percent as its finest
step."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A search that conversations get."""

    name: str
    """What the settings call it: `off`, `bm25`, `hybrid`."""

    strategy: SearchStrategy
    """What searches."""


class Experiment:
    """The search of each conversation, the same one for as long as the share stays.

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
        """One of `main` and `control` may be None when no conversation gets it.

        Args:
            main: What the share gets.
            control: What the others get.
            share_percent: How many conversations get `main`.
            further: Further searches, for conversations that ask for them by name.
        """
        assert main is not None or control is not None
        self.main = main
        """What the share gets."""
        self.control = control
        """What the others get."""
        self._share_percent = share_percent
        self._further = tuple(further)

    @property
    def all(self) -> tuple[Variant, ...]:
        """Those that conversations get."""
        compared = tuple(arm for arm in (self.main, self.control) if arm is not None)
        return compared + self._further

    def variant_for(self, conversation: Sequence[str], asked: str = "") -> Variant:
        """The search of a conversation, which is named by all parts together.

        Args:
            conversation: Its name.
            asked: Name of the search that it asks for; one that there is not counts for nothing.
        """
        for arm in self.all if asked else ():
            if arm.name == asked:
                return arm
        if self.main is None or self.control is None:
            return self.all[0]
        # A hash and no random number: the same conversation gets the same search in every process,
        # and a larger share only adds conversations.
        text = "\0".join(conversation).encode(errors="surrogatepass")
        slot = int.from_bytes(blake2b(text, digest_size=8).digest()) % _PARTS
        return self.main if slot < self._share_percent / 100 * _PARTS else self.control

    async def update(self, tools: Sequence[SearchableTool]) -> None:
        """Make these the tools of every search."""
        for arm in self.all:
            await arm.strategy.update(tools)
