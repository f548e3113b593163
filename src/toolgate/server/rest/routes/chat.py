"""Routes for chat threads and the settings of chat turns."""

from typing import Annotated

from pydantic import Field

from toolgate.chat import ChatService, Choices
from toolgate.errors import UnknownModelError
from toolgate.server.rest.models import Query, TableFields
from toolgate.server.rest.routing import Call, Routes
from toolgate.types import Json, json_object

routes = Routes()


def _chat(call: Call) -> ChatService:
    if call.app.chat is None:
        raise UnknownModelError(
            "No chat model is configured.",
            hint="Add a table [models.NAME]; see docs/chat.md.",
        )
    return call.app.chat


class ThreadQuery(Query):
    """Which threads."""

    responses: bool = Field(
        default=False, description="Whether to list single responses of /v1/responses, too."
    )


@routes.get("threads")
async def threads(call: Call, query: ThreadQuery) -> Json:
    """List the caller's threads, the last used first."""
    return {
        "threads": [
            {
                "thread_id": thread.name,
                "created_at": thread.created_at,
                "used_at": thread.used_at,
                "messages": thread.last_number,
                "running": bool(thread.running),
                "waiting": bool(json_object(thread.state.get("pending"))),
            }
            for thread in await _chat(call).threads.recent(
                call.caller, with_responses=query.responses
            )
        ]
    }


@routes.delete("threads/{name}")
async def delete_thread(call: Call, name: str) -> Json:
    """Delete a thread with its settings."""
    return {"deleted": await _chat(call).threads.delete(call.caller, name)}


@routes.get("threads/{name}/usage")
async def thread_usage(call: Call, name: str) -> Json:
    """Show what each request to a model cost."""
    return {"usage": await _chat(call).threads.spending(call.caller, name)}


@routes.get("threads/{name}/settings")
async def thread_settings(call: Call, name: str) -> Json:
    """Show the settings of a thread."""
    return await _chat(call).threads.settings(call.caller, name)


@routes.patch("threads/{name}/settings")
async def change_thread_settings(
    call: Call, name: str, body: Annotated[Json, TableFields(Choices)]
) -> Json:
    """Change settings of a thread; null takes one back."""
    return await _chat(call).threads.change_settings(call.caller, name, body)


@routes.get("chat/settings")
async def chat_settings(call: Call) -> Json:
    """Show the chat settings of the project."""
    return await _chat(call).threads.settings(call.caller, None)


@routes.patch("chat/settings")
async def change_chat_settings(call: Call, body: Annotated[Json, TableFields(Choices)]) -> Json:
    """Change chat settings of the project; null takes one back."""
    call.must_manage()
    return await _chat(call).threads.change_settings(call.caller, None, body)
