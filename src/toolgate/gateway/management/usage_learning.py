"""What search has learned from use: its state, marks by callers, and deletion."""

from toolgate.errors import ArgumentError
from toolgate.gateway.parts import GatewayContext
from toolgate.search import LearningStatus
from toolgate.types import Caller, Json


class LearningService:
    """Marks search results and manages what was learned from use."""

    def __init__(self, context: GatewayContext) -> None:
        self._settings = context.settings
        self._learning = context.search.learning
        self._visible = context.visible
        self._receipts = context.receipts

    async def mark(self, caller: Caller, key: str, *, right: bool) -> None:
        """Mark a tool that a search of the caller returned as right or wrong.

        Raises:
            ArgumentError: No recent search of this caller returned it.
        """
        with self._receipts.refusals(caller, "mark", key):
            if not await self._learning.mark(caller, key, right=right):
                raise ArgumentError(
                    f"None of your recent searches returned the tool {key[:100]!r}.",
                    hint="Search for it first; the mark belongs to that search."
                    if self._settings.current.usage.enabled
                    else "Learning from use is off: set usage.enabled = true.",
                )
        detail: Json = {"key": key, "mark": "right" if right else "wrong"}
        await self._receipts.note(caller, "mark", detail)

    async def status(self, caller: Caller) -> LearningStatus:
        """What was learned from use in the caller's project."""
        return await self._learning.status(caller)

    async def clear(self, caller: Caller) -> int:
        """Delete the searches and calls of the caller's project. Returns the number of searches.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
        """
        self._visible.must_manage(caller)
        deleted = await self._learning.clear(caller.project_id)
        detail: Json = {"searches": deleted}
        await self._receipts.note(caller, "forget", detail)
        return deleted
