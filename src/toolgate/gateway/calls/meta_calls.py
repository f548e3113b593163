"""The calls behind `tool_execute` and `tool_read`: one call, or a list of read-only calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from toolgate.base import json_text
from toolgate.errors import ArgumentError, CannotAskError, ToolgateError
from toolgate.gateway.calls.service import CallService, error_result
from toolgate.gateway.execution import text_of_block
from toolgate.gateway.execution.result_shape import Shape
from toolgate.gateway.listing import ContentService
from toolgate.gateway.meta_tools import (
    READ_TOOL,
    ExecuteArguments,
    ReadArguments,
    read_result_read,
)
from toolgate.gateway.parts import GatewayContext
from toolgate.gateway.results.page_store import PagedResults
from toolgate.gateway.results.shaping import ResultShaper
from toolgate.types import Caller, Json, Peer, json_array, json_object

_RESULT_READ: Final = ("toolgate:result_read", "result_read")
"""Keys of the meta-tool for pages, which some models run as if it were a server's tool."""

_PARALLEL: Final = 8
"""Calls of a list that run at the same time; the same number as for a program."""

_FEWEST_PAGE_TOKENS: Final = 200
"""Fewest estimated tokens for each result of a list; also the minimum of `results.page_tokens`."""


@dataclass(frozen=True, kw_only=True)
class _Answered:
    """The answer to one call of a list."""

    key: str
    result: Json


class MetaCalls:
    """Runs calls of models: checks arguments; filters, formats and pages results."""

    def __init__(
        self,
        context: GatewayContext,
        calls: CallService,
        *,
        contents: ContentService,
        shaper: ResultShaper,
        pages: PagedResults,
    ) -> None:
        self._calls = calls
        self._visible = context.visible
        self._contents = contents
        self._shaper = shaper
        self._pages = pages
        self._receipts = context.receipts

    async def run(
        self,
        caller: Caller,
        request: ExecuteArguments,
        params: Json,
        peer: Peer | None,
        *,
        tool: str,
        page_tokens: int | None = None,
    ) -> Json:
        """Run one call.

        Args:
            caller: The caller.
            request: The call.
            params: Parameters of the request, including the client's answers to questions.
            peer: The client; None if it can be neither asked nor notified.
            tool: The meta-tool; `tool_read` refuses tools that may change something.
            page_tokens: Estimated tokens of a result page; None for the value of the settings.

        Raises:
            ToolgateError: The call was refused or failed.
        """
        if request.key in _RESULT_READ:
            return await self.read_result(caller, read_result_read(request.arguments))
        await self._visible.wait_first_listing(caller, request.key)
        if (content := self._contents.find(caller, request.key)) is not None:
            result = await self._shaper.run(
                caller,
                request.shape,
                lambda: self._contents.read(caller, content, request.arguments, peer),
            )
            return await self._pages.first_page(caller, result, page_tokens=page_tokens)
        with self._receipts.refusals(caller, "call", request.key):
            authorized = self._visible.authorize(caller, request.key)
            if tool == READ_TOOL and not self._visible.reads_only(caller, authorized.entry):
                raise ArgumentError(
                    f"{READ_TOOL} does not run {authorized.entry.shown_key}.",
                    allowed="Allowed: tools that are marked read-only by a server that is trusted.",
                    hint="It did not run. Use tool_execute.",
                )
            if "requestState" not in params and "inputResponses" not in params:
                await self._calls.check_arguments(caller, authorized.entry, request.arguments)
        inner = {**params, "arguments": request.arguments}
        result = await self._shaper.run(
            caller, request.shape, lambda: self._calls.run(caller, authorized, inner, peer)
        )
        schema = json_object(authorized.entry.definition.get("outputSchema"))
        return await self._pages.first_page(
            caller,
            result,
            page_tokens=page_tokens,
            schema=schema if request.shape.is_whole else None,
        )

    async def run_list(
        self, caller: Caller, requests: Sequence[ExecuteArguments], *, is_structured: bool = False
    ) -> Json:
        """Run calls of read-only tools at the same time; a failed call does not stop the others.

        Nobody can be asked anything: a call that needs an answer fails and says so.

        Args:
            caller: The caller.
            requests: The calls.
            is_structured: Whether the answer is for a program, with the results under `results`.

        Returns:
            The results in the order of the calls; an error if all of them are errors.

        Raises:
            ArgumentError: One of the tools may change something; nothing was run.
        """
        for request in requests:
            await self._visible.wait_first_listing(caller, request.key)
        self._check_read_only(caller, requests)
        page_tokens = self._pages.page_tokens // len(requests)
        limiter = anyio.CapacityLimiter(_PARALLEL)
        answers: dict[int, Json] = {}

        async def answer(number: int, request: ExecuteArguments) -> None:
            async with limiter:
                answers[number] = await self._answer(
                    caller, request, max(page_tokens, _FEWEST_PAGE_TOKENS)
                )

        async with anyio.create_task_group() as tasks:
            for number, request in enumerate(requests):
                tasks.start_soon(answer, number, request)
        results = [
            _Answered(key=request.key, result=answers[number])
            for number, request in enumerate(requests)
        ]
        return _structured(results) if is_structured else _content(results)

    async def read_result(self, caller: Caller, page: ReadArguments) -> Json:
        """Return a page of a stored result, or the output of a filter on it.

        Raises:
            ArgumentError: The filter is not valid jq.
            HandleError: The handle is altered, expired, or another caller's.
        """
        if not page.select.strip():
            return await self._pages.read(caller, page.handle, page.offset)
        result = await self._shaper.read(caller, page.handle, Shape(select=page.select))
        return await self._pages.first_page(caller, result)

    def _check_read_only(self, caller: Caller, requests: Sequence[ExecuteArguments]) -> None:
        """Refuse a list with a tool that may change something; unknown tools fail on their own."""
        for request in requests:
            entry = self._visible.find_tool(caller, request.key)
            if entry is None or self._visible.reads_only(caller, entry):
                continue
            with self._receipts.refusals(caller, "call", entry.key):
                raise ArgumentError(
                    f"'calls' has {entry.shown_key}, which may change something.",
                    allowed="Allowed in a list: tools that are marked read-only.",
                    hint="Nothing was run. Run it alone with tool_execute.",
                )

    async def _answer(self, caller: Caller, request: ExecuteArguments, page_tokens: int) -> Json:
        try:
            result = await self.run(
                caller, request, {}, None, tool=READ_TOOL, page_tokens=page_tokens
            )
            if result.get("resultType") != "input_required":
                return result
            question = "The tool asks something, and in a list nobody is asked."
            error: ToolgateError = CannotAskError(question, hint="Run it alone.")
        except ToolgateError as failure:
            error = failure
        return error_result(error, is_manager=self._visible.manages(caller))


def _structured(answers: Sequence[_Answered]) -> Json:
    results = [{"toolKey": answer.key, **answer.result} for answer in answers]
    return {"content": [], "structuredContent": {"results": results}, **_error(answers)}


def _content(answers: Sequence[_Answered]) -> Json:
    """Join the contents of the answers, each after the key of its tool."""
    blocks: list[object] = []
    for number, answer in enumerate(answers, 1):
        failed = " failed" if answer.result.get("isError") is True else ""
        blocks.append({"type": "text", "text": f"[{number}] {answer.key}{failed}"})
        blocks += _blocks(answer.result)
    return {"content": blocks, **_error(answers)}


def _blocks(result: Json) -> list[object]:
    """The content of a result; its structured content if it has no text."""
    blocks = json_array(result.get("content"))
    if any(text_of_block(block) for block in blocks) or "structuredContent" not in result:
        return blocks
    text = json_text.dumps(result["structuredContent"]).decode("utf-8", "replace")
    return [*blocks, {"type": "text", "text": text}]


def _error(answers: Sequence[_Answered]) -> Json:
    failed = all(answer.result.get("isError") is True for answer in answers)
    return {"isError": True} if failed else {}
