"""Prompts, resources, templates and skills: found by search like tools, and read like a call."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from toolgate.catalog import Content, Snapshot, contents_of
from toolgate.gateway.parts import GatewayContext
from toolgate.gateway.prompts import PromptService
from toolgate.gateway.resources import ResourceService
from toolgate.search import SearchAnswer, SearchRequest
from toolgate.types import Caller, Json, Peer, json_array, json_object

NOTHING: Final = SearchAnswer(hits=(), fit="none")
"""The answer if there is nothing to search."""


class ContentService:
    """Finds and reads contents for a caller, with the same rights as listing them."""

    def __init__(
        self, context: GatewayContext, *, prompts: PromptService, resources: ResourceService
    ) -> None:
        self._catalog = context.catalog
        self._access = context.access
        self._index = context.search.contents
        self._prompts = prompts
        self._resources = resources
        self._by_key: tuple[Snapshot, Mapping[str, Content]] = Snapshot(), {}

    def find(self, caller: Caller, key: str) -> Content | None:
        """The content with a key; None if it does not exist for this caller."""
        content = self._contents(self._catalog.snapshot).get(key)
        return content if content is not None and self._is_visible(caller, content) else None

    async def search(
        self,
        caller: Caller,
        snapshot: Snapshot,
        request: SearchRequest,
        kinds: Collection[str],
        hidden: Collection[str],
    ) -> SearchAnswer:
        """Return the contents that match a request, best first.

        Args:
            caller: The caller.
            snapshot: The catalog.
            request: The search; `mask` and whatever concerns only tools are ignored.
            kinds: Requested kinds; empty for all.
            hidden: Servers whose contents are not searched.
        """
        contents = self._contents(snapshot)
        if not contents:
            return NOTHING
        await self._index.update_to(snapshot.version, tuple(contents.values()))
        strategy = self._index.experiment.all[0].strategy
        indexed = [contents.get(key) for key in strategy.keys]
        mask = np.fromiter(
            (
                content is not None
                and (not kinds or content.kind in kinds)
                and content.server not in hidden
                and self._is_visible(caller, content)
                for content in indexed
            ),
            np.bool_,
            count=len(indexed),
        )
        if not mask.any():
            return NOTHING
        answer = await strategy.search(
            replace(request, mask=mask, recent=(), priors={}, weights={}, learned=None)
        )
        hits = tuple(replace(hit, kind=contents[hit.key].kind) for hit in answer.hits)
        return replace(answer, hits=hits)

    async def read(
        self, caller: Caller, content: Content, arguments: Json, peer: Peer | None
    ) -> Json:
        """Read a content, as the result of a call.

        Raises:
            ArgumentError: The arguments are not those of the template.
            GuardError: A guard does not allow it.
            UpstreamError: The server failed.
        """
        if content.kind == "prompt":
            params: Json = {"name": content.entry.exposed, "arguments": arguments}
            result = await self._prompts.get(caller, params, peer)
            return {"content": _prompt_blocks(result)}
        # The form with the server's name means this server, even if others offer the same URI.
        uri = f"toolgate://{content.server}/{content.uri(arguments)}"
        result = await self._resources.read(caller, {"uri": uri}, peer)
        blocks = map(_resource_block, map(json_object, json_array(result.get("contents"))))
        return {"content": list(blocks)}

    def _contents(self, snapshot: Snapshot) -> Mapping[str, Content]:
        if self._by_key[0] is not snapshot:
            self._by_key = snapshot, contents_of(snapshot)
        return self._by_key[1]

    def _is_visible(self, caller: Caller, content: Content) -> bool:
        return self._access.decide(caller, content.action, content.entry.key).allowed


def _prompt_blocks(result: Json) -> list[Json]:
    """The messages of a prompt, with their roles if there are several."""
    messages = [json_object(message) for message in json_array(result.get("messages"))]
    several = len({message.get("role") for message in messages}) > 1
    blocks: list[Json] = []
    for message in messages:
        block = json_object(message.get("content"))
        if several:
            blocks.append({"type": "text", "text": f"{message.get('role')}:"})
        blocks.append(block)
    return blocks


def _resource_block(contents: Json) -> Json:
    """Text as a text block, everything else unchanged."""
    text = contents.get("text")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    return {"type": "resource", "resource": contents}
