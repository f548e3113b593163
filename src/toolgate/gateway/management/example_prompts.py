"""Adding example prompts to the files of packs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from toolgate.base.pack_files import append_lines
from toolgate.gateway.parts import GatewayContext
from toolgate.types import Caller


class ExamplePromptManagement:
    """Adds example prompts; the gateway learns them once it sees the changed file."""

    def __init__(self, context: GatewayContext) -> None:
        self._visible = context.visible
        self._receipts = context.receipts

    async def add(
        self, caller: Caller, path: Path, lines: Sequence[str], *, pack: str, intent: str
    ) -> int:
        """Add lines to a prompt file; return how many it did not have yet.

        Args:
            caller: The caller.
            path: The file.
            lines: The prompts.
            pack: The name of the pack, for the audit log.
            intent: The intent, or `none`, for the audit log.

        Raises:
            ForbiddenError: The caller lacks the right `manage`.
            PackError: The file cannot be written.
        """
        self._visible.must_manage(caller)
        async with self._receipts.change(caller, "pack_learn", {"name": pack, "intent": intent}):
            return await asyncio.to_thread(append_lines, path, lines)
