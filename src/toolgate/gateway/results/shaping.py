"""Returns the part of a result that a caller wants, in the wanted format."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from toolgate.base import json_text
from toolgate.base.tool_results import failed_result
from toolgate.gateway.execution import text_of_block
from toolgate.gateway.execution.result_formats import FormatError, render
from toolgate.gateway.execution.result_shape import Shape
from toolgate.gateway.results.jq_filter import FilterError, JqFilter
from toolgate.gateway.results.json_values import describe, read_result, read_text
from toolgate.gateway.results.page_store import PagedResults
from toolgate.types import Caller, Json, json_array


class ResultShaper:
    """Filters and formats results."""

    def __init__(self, pages: PagedResults, jq: JqFilter) -> None:
        self._pages = pages
        self._jq = jq

    async def run(self, caller: Caller, shape: Shape, call: Callable[[], Awaitable[Json]]) -> Json:
        """Run a call and shape its result. A filter that is not valid jq stops it beforehand.

        If the filter does not match the result, the result is stored, and the answer is an error
        that says how to read it: the call has had its effect and must not be repeated just for a
        filter.

        Raises:
            ArgumentError: The filter is not valid jq.
        """
        if shape.select:
            await self._jq.check(shape.select)
        result = await call()
        is_final = result.get("resultType") != "input_required"
        if shape.is_whole or not is_final or result.get("isError") is True:
            return result
        value = read_result(result)
        try:
            text = await self._text(shape, value)
        except (FilterError, FormatError) as error:
            return await self._unfit(caller, result, value, error)
        raw = json_array(result.get("content"))
        others = [block for block in raw if text_of_block(block) is None]
        members = {key: result[key] for key in result if key != "structuredContent"}
        return {**members, "content": [{"type": "text", "text": text}, *others]}

    async def read(self, caller: Caller, handle: str, shape: Shape) -> Json:
        """Return a stored result in a shape.

        Raises:
            ArgumentError: The filter is not valid jq.
            HandleError: The handle is altered, expired, or another caller's.
        """
        if shape.select:
            await self._jq.check(shape.select)
        value = read_text(await self._pages.stored_text(caller, handle))
        try:
            text = await self._text(shape, value)
        except (FilterError, FormatError) as error:
            return failed_result(f"{_reason(error)} {describe(value)}")
        return {"content": [{"type": "text", "text": text}]}

    async def aclose(self) -> None:
        """Stop the processes of the filters."""
        await self._jq.aclose()

    async def _text(self, shape: Shape, value: object) -> str:
        output = value
        if shape.select:
            output = await self._jq.apply(shape.select, value)
        text = render(output, shape.format or "json")
        if shape.select and _is_nothing(output):
            text += f"\n[toolgate: the filter gives nothing. {describe(value)}]"
        return text

    async def _unfit(self, caller: Caller, result: Json, value: object, error: ValueError) -> Json:
        problem = f"The tool ran, but {_reason(error, start='its')} {describe(value)}"
        handle = await self._pages.keep(caller, json_text.dumps(value))
        if handle is None:
            note = {"type": "text", "text": f"{problem} The whole result follows."}
            return {**result, "content": [note, *json_array(result.get("content"))]}
        call = json_text.dumps({"handle": handle, "select": "."}).decode()
        return failed_result(
            f"{problem} Do not run it again: read its result with result_read {call}."
        )


def _reason(error: ValueError, *, start: str = "The") -> str:
    if isinstance(error, FilterError):
        return f"{start} result could not be filtered: {error}."
    return f"{start} result could not be formatted: {error}."


def _is_nothing(output: Any) -> bool:
    """Whether a filter returned no value or only null, as for names of missing keys."""
    if isinstance(output, list):
        return all(item is None for item in cast("list[object]", output))
    return output is None
