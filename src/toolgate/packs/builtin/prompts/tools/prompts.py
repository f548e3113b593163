"""The tools of the pack: the functions of `toolgate prompts` for MCP clients."""

from typing import Annotated

from pydantic import Field

from toolgate import Context, tool
from toolgate.errors import ArgumentError, SettingError
from toolgate.gateway.prompts import PromptService
from toolgate.types import Json

_READS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
_WRITES = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
_Name = Annotated[str, Field(min_length=1, max_length=200)]


@tool(title="List prompts", annotations=_READS)
async def prompt_list(context: Context) -> Json:
    """List the names of all prompt templates, and which of them are replaced.

    Args:
        context: Given by Toolgate.
    """
    return {"prompts": await _prompt_service(context).prompts(context.caller)}


@tool(title="Show a prompt", annotations=_READS)
async def prompt_get(context: Context, name: _Name) -> Json:
    """Show a prompt with its text as it is now.

    Args:
        context: Given by Toolgate.
        name: Of the prompt, as `prompt_list` shows it.
    """
    return await _prompt_service(context).prompt(context.caller, name)


@tool(title="Replace a prompt", annotations=_WRITES)
async def prompt_set(context: Context, name: _Name, instructions: str) -> Json:
    """Put another text in place of a prompt, in this project, from the next request on.

    Args:
        context: Given by Toolgate.
        name: Of the prompt.
        instructions: The new text, with the fields that the prompt needs.
    """
    return await _prompt_service(context).replace(context.caller, name, instructions)


@tool(title="Take the text that ships", annotations=_WRITES)
async def prompt_clear(context: Context, name: _Name) -> Json:
    """Take the replacement of a prompt back.

    Args:
        context: Given by Toolgate.
        name: Of the prompt.
    """
    return {"cleared": await _prompt_service(context).clear(context.caller, name)}


@tool(title="Take all texts that ship", annotations=_WRITES)
async def prompt_clear_all(context: Context) -> Json:
    """Take every replacement of this project back.

    Args:
        context: Given by Toolgate.
    """
    return {"cleared": await _prompt_service(context).clear_all(context.caller)}


@tool(title="Try a prompt out", annotations=_READS)
async def prompt_test(
    context: Context,
    name: _Name,
    instructions: str | None = None,
    values: dict[str, str] | None = None,
) -> Json:
    """Show what a prompt, or a text in its place, comes out as; changes nothing.

    Args:
        context: Given by Toolgate.
        name: Of the prompt.
        instructions: A text to try in its place.
        values: What stands in its fields.
    """
    if instructions is not None and not instructions.strip():
        raise ArgumentError("The instructions are empty.", hint="Leave them out, or write some.")
    return await _prompt_service(context).try_out(context.caller, name, instructions, values or {})


def _prompt_service(context: Context) -> PromptService:
    service = context.prompts
    if not isinstance(service, PromptService):
        raise SettingError(
            "This gateway has no database to store prompts in.", hint="Set store.url."
        )
    return service
