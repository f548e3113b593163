"""Routes for prompts and their replacements."""

from dataclasses import asdict
from typing import Any

from pydantic import Field

from toolgate.errors import ArgumentError
from toolgate.server.rest.models import Body
from toolgate.server.rest.routing import Call, Routes
from toolgate.types import Json

routes = Routes()


@routes.get("prompts")
async def prompts(call: Call) -> Json:
    """List the prompts."""
    return {"prompts": await call.gateway.prompts.prompts(call.caller)}


@routes.get("prompts/{name}")
async def prompt(call: Call, name: str) -> Json:
    """Show a prompt with its text."""
    return await call.gateway.prompts.prompt(call.caller, name)


@routes.get("prompts/{name}/versions")
async def prompt_versions(call: Call, name: str) -> Json:
    """List what has replaced a prompt, oldest first."""
    versions = await call.gateway.prompts.versions(call.caller, name)
    return {"versions": [asdict(version) for version in versions]}


class PromptText(Body):
    """The text of a prompt, under either name."""

    instructions: str | None = None
    text: str | None = None

    @property
    def content(self) -> str | None:
        """The text; None if there is none."""
        return self.text if self.instructions is None else self.instructions


@routes.patch("prompts/{name}")
async def replace_prompt(call: Call, name: str, body: PromptText) -> Json:
    """Replace the text of a prompt by `instructions` (or `text`)."""
    if body.content is None:
        raise ArgumentError("Member 'instructions' is missing.", hint="Give it the new text.")
    return await call.gateway.prompts.replace(call.caller, name, body.content)


@routes.delete("prompts/{name}")
async def clear_prompt(call: Call, name: str) -> Json:
    """Go back to the text that ships."""
    return {"cleared": await call.gateway.prompts.clear(call.caller, name)}


@routes.delete("prompts")
async def clear_prompts(call: Call) -> Json:
    """Go back to the texts that ship, for all prompts."""
    return {"cleared": await call.gateway.prompts.clear_all(call.caller)}


class TryPrompt(PromptText):
    """A text to try, absent: the prompt's own, and what fills it."""

    values: dict[str, Any] = Field({})


@routes.post("prompts/{name}/test")
async def try_prompt(call: Call, name: str, body: TryPrompt) -> Json:
    """Show how a prompt, or a `text` in its place, comes out with `values`."""
    values = {key: str(value) for key, value in body.values.items()}
    return await call.gateway.prompts.try_out(call.caller, name, body.content, values)
