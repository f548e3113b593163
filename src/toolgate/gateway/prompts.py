"""Prompt operations: built-in prompts, those of packs and servers, and project replacements.

Built-in prompts are listed to MCP clients with the prefix `toolgate_`. Every prompt can be
replaced under the name that clients see, and keeps its title.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from toolgate.base.ids import utc_now
from toolgate.errors import UnknownPromptError
from toolgate.gateway.execution.content_request import prompt_request
from toolgate.gateway.execution.forwarding import ServerForwarder
from toolgate.gateway.parts import GatewayContext
from toolgate.prompts import PREFIX, Prompt, Prompts, check, fields_in, fill
from toolgate.store import StoredPrompt
from toolgate.types import Caller, Json, Peer, json_array, json_object


@dataclass(frozen=True)
class _Foreign:
    """A prompt of a pack or server."""

    name: str
    title: str


class PromptService:
    """Prompt operations for callers."""

    def __init__(
        self, context: GatewayContext, prompts: Prompts, *, forwarder: ServerForwarder
    ) -> None:
        self._settings = context.settings
        self._forwarder = forwarder
        self._prompts = prompts
        self._visible = context.visible
        self._catalog = context.catalog
        self._receipts = context.receipts
        self.render = prompts.render
        """Renders a built-in prompt, for the stages that need it."""

    # For MCP clients

    async def definitions(self, caller: Caller) -> list[Json]:
        """The built-in prompts, as in `prompts/list`."""
        found: list[Json] = []
        for prompt in await self._prompts.all(caller.project_id):
            fields = fields_in(prompt.text)
            found.append(
                {
                    "name": PREFIX + prompt.name,
                    "title": prompt.title,
                    "description": f"{prompt.title}.",
                    "arguments": [{"name": name, "required": False} for name in sorted(fields)],
                }
            )
        return found

    async def get(self, caller: Caller, params: Json, peer: Peer | None) -> Json:
        """Answer a `prompts/get`.

        Raises:
            GuardError: A guard does not allow its arguments or the result.
            UnknownPromptError: No server offers it to this caller.
            UpstreamError: The server failed.
        """
        name, arguments = str(params.get("name")), json_object(params.get("arguments"))
        if self._settings.current.models and self._settings.current.tool_names != "flat":
            own = await self.own(caller, name, arguments)
            if own is not None:
                return own
        entry = self._visible.prompt(caller, name)
        request = prompt_request(entry.server, entry.key, entry.name, params)
        result = await self._forwarder.forward(
            caller, request, peer, lambda: self._visible.prompt(caller, name)
        )
        return await self.replaced(caller, name, arguments, result)

    async def own(self, caller: Caller, name: str, arguments: Json) -> Json | None:
        """A built-in prompt, as `prompts/get` answers; None if it is not built in."""
        if not name.startswith(PREFIX):
            return None
        try:
            prompt = await self._prompts.get(caller.project_id, name)
        except UnknownPromptError:
            return None
        text = fill(prompt.text, _texts(arguments))
        return {
            "description": f"{prompt.title}.",
            "messages": [{"role": prompt.role, "content": {"type": "text", "text": text}}],
        }

    async def replaced(self, caller: Caller, name: str, arguments: Json, result: Json) -> Json:
        """The server's result for a prompt, or the project's replacement."""
        found = await self._prompts.replacement(caller.project_id, name)
        if found is None or found.text is None:
            return result
        messages = json_array(result.get("messages"))
        role = json_object(messages[0]).get("role", "user") if messages else "user"
        text = fill(found.text, _texts(arguments))
        return {
            **result,
            "messages": [{"role": role, "content": {"type": "text", "text": text}}],
        }

    # Management

    async def prompts(self, caller: Caller) -> list[Json]:
        """All prompts that the caller may see, built-in ones first, with their replacements."""
        found = [_shown(prompt) for prompt in await self._prompts.all(caller.project_id)]
        for entry in self._catalog.snapshot.prompts.values():
            if not self._may_see(caller, entry.exposed):
                continue
            found.append(await self._shown_foreign(caller, self._foreign(caller, entry.exposed)))
        return found

    async def prompt(self, caller: Caller, name: str) -> Json:
        """A prompt, with its text if it is known here.

        Raises:
            UnknownPromptError: The prompt does not exist.
        """
        own = await self._own(caller, name)
        if own is not None:
            return {**_shown(own), "text": own.text}
        foreign = self._foreign(caller, name)
        found = await self._prompts.replacement(caller.project_id, name)
        text = None if found is None else found.text
        return {**await self._shown_foreign(caller, foreign), "text": text}

    def default_text(self, name: str) -> str | None:
        """The text that a prompt has unless it is replaced; None if its server provides it."""
        return self._prompts.default_text(name)

    async def versions(self, caller: Caller, name: str) -> list[StoredPrompt]:
        """All replacements of a prompt, oldest first.

        Raises:
            UnknownPromptError: The prompt does not exist.
        """
        await self.prompt(caller, name)
        return await self._prompts.versions(caller.project_id, name)

    async def replace(self, caller: Caller, name: str, text: str) -> Json:
        """Replace a prompt in the caller's project.

        Raises:
            ForbiddenError: The caller lacks the right.
            UnknownPromptError: The prompt does not exist.
            ArgumentError: The text is not valid for this prompt.
        """
        self._visible.must_manage(caller)
        await self.prompt(caller, name)
        await self._prompts.replace(caller.project_id, name, text, by=caller.caller_id)
        await self._noted(caller, "replace", name)
        return await self.prompt(caller, name)

    async def clear(self, caller: Caller, name: str) -> bool:
        """Delete a replacement. Return False if there was none.

        Raises:
            ForbiddenError: The caller lacks the right.
            UnknownPromptError: The prompt does not exist.
        """
        self._visible.must_manage(caller)
        await self.prompt(caller, name)
        done = await self._prompts.clear(caller.project_id, name, by=caller.caller_id)
        await self._noted(caller, "clear", name)
        return done

    async def clear_all(self, caller: Caller) -> list[str]:
        """Delete all replacements of the project. Return their names.

        Raises:
            ForbiddenError: The caller lacks the right.
        """
        self._visible.must_manage(caller)
        names = await self._prompts.clear_all(caller.project_id, by=caller.caller_id)
        await self._noted(caller, "clear", ",".join(names))
        return names

    async def try_out(
        self, caller: Caller, name: str, text: str | None, values: Mapping[str, str]
    ) -> Json:
        """Render a prompt, or a text in its place, without changing anything.

        Raises:
            UnknownPromptError: The prompt does not exist.
            ArgumentError: The text is not valid for this prompt.
        """
        own = await self._own(caller, name)
        if own is None:
            self._foreign(caller, name)
        if text is not None:
            check(name, text)
        elif own is not None:
            text = own.text
        else:
            found = await self._prompts.replacement(caller.project_id, name)
            text = (found.text if found is not None else "") or ""
        fields = sorted(fields_in(text))
        return {
            "name": name,
            "text": fill(text, {**{field: f"<{field}>" for field in fields}, **values}),
            "fields": fields,
        }

    async def _own(self, caller: Caller, name: str) -> Prompt | None:
        try:
            return await self._prompts.get(caller.project_id, name)
        except UnknownPromptError:
            return None

    def _may_see(self, caller: Caller, name: str) -> bool:
        try:
            self._visible.prompt(caller, name)
        except UnknownPromptError:
            return False
        return True

    def _foreign(self, caller: Caller, name: str) -> _Foreign:
        entry = self._visible.prompt(caller, name)
        definition = entry.definition
        return _Foreign(entry.exposed, str(definition.get("title") or definition.get("name")))

    async def _shown_foreign(self, caller: Caller, foreign: _Foreign) -> Json:
        found = await self._prompts.replacement(caller.project_id, foreign.name)
        return {
            "name": foreign.name,
            "mcp_name": foreign.name,
            "title": foreign.title,
            "role": None,
            "needs": [],
            "is_default": found is None,
            "version": 0 if found is None else found.version,
            "changed_at": None if found is None else found.changed_at,
            "changed_by": None if found is None else found.changed_by,
        }

    async def _noted(self, caller: Caller, what: str, name: str) -> None:
        detail: Json = {"what": what, "prompt": name, "at": utc_now()}
        await self._receipts.note(caller, "prompt_change", detail)


def _shown(prompt: Prompt) -> Json:
    return {
        "name": prompt.name,
        "mcp_name": PREFIX + prompt.name,
        "title": prompt.title,
        "role": prompt.role,
        "needs": list(prompt.needs),
        "is_default": prompt.is_default,
        "version": prompt.version if not prompt.is_default else 0,
        "changed_at": prompt.changed_at or None,
        "changed_by": prompt.changed_by or None,
    }


def _texts(arguments: Json) -> dict[str, str]:
    return {name: str(value) for name, value in arguments.items()}
