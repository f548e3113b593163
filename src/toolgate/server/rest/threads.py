"""REST routes for chat threads, turn settings and prompts."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from toolgate.app.app import App
from toolgate.chat import ChatService
from toolgate.errors import ArgumentError, UnknownModelError
from toolgate.types import Caller, Json, json_object

__all__ = ["TURNS", "TurnAnswer"]

TurnAnswer = Callable[[App, Caller, tuple[str, ...], Json], Awaitable[tuple[int, object]]]


def _chat(app: App) -> ChatService:
    if app.chat is None:
        raise UnknownModelError(
            "No chat model is configured.",
            hint="Write a table [models.NAME], see docs/chat.md.",
        )
    return app.chat


async def _threads(app: App, caller: Caller, _names: tuple[str, ...], _body: Json) -> Any:
    """`GET threads`: the caller's threads, the last used first."""
    threads = await _chat(app).threads.recent(caller)
    return 200, {
        "threads": [
            {
                "thread_id": thread.name,
                "created_at": thread.created_at,
                "used_at": thread.used_at,
                "messages": thread.last_number,
                "running": bool(thread.running),
                "waiting": bool(json_object(thread.state.get("pending"))),
            }
            for thread in threads
        ]
    }


async def _delete_thread(app: App, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`DELETE threads/NAME`: with its settings."""
    return 200, {"deleted": await _chat(app).threads.delete(caller, names[0])}


async def _thread_usage(app: App, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`GET threads/NAME/usage`: what each request to a model cost."""
    return 200, {"usage": await _chat(app).threads.spending(caller, names[0])}


async def _settings(app: App, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`GET threads/NAME/settings`, and `GET chat/settings` for the project."""
    return 200, await _chat(app).threads.settings(caller, names[0] if names else None)


async def _change_settings(app: App, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`PATCH threads/NAME/settings`, and `PATCH chat/settings` for the project; null takes back."""
    if not names:
        app.gateway.visible.must_manage(caller)
    return 200, await _chat(app).threads.change_settings(caller, names[0] if names else None, body)


async def _prompts(app: App, caller: Caller, _names: tuple[str, ...], _body: Json) -> Any:
    """`GET prompts`."""
    return 200, {"prompts": await app.gateway.prompts.prompts(caller)}


async def _prompt(app: App, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`GET prompts/NAME`: with its text."""
    return 200, await app.gateway.prompts.prompt(caller, names[0])


async def _prompt_versions(app: App, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`GET prompts/NAME/versions`: what was put in its place, oldest first."""
    versions = await app.gateway.prompts.versions(caller, names[0])
    return 200, {"versions": [asdict(version) for version in versions]}


async def _replace_prompt(app: App, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`PATCH prompts/NAME`: put `instructions` (or `text`) in its place."""
    text = _text(body, is_needed=True)
    assert text is not None
    return 200, await app.gateway.prompts.replace(caller, names[0], text)


async def _clear_prompt(app: App, caller: Caller, names: tuple[str, ...], _body: Json) -> Any:
    """`DELETE prompts/NAME`: the text that ships again."""
    return 200, {"cleared": await app.gateway.prompts.clear(caller, names[0])}


async def _clear_prompts(app: App, caller: Caller, _names: tuple[str, ...], _body: Json) -> Any:
    """`DELETE prompts`: all of them."""
    return 200, {"cleared": await app.gateway.prompts.clear_all(caller)}


async def _test_prompt(app: App, caller: Caller, names: tuple[str, ...], body: Json) -> Any:
    """`POST prompts/NAME/test`: how it, or a `text` in its place, comes out with `values`."""
    values = {name: str(value) for name, value in json_object(body.get("values")).items()}
    text = _text({key: value for key, value in body.items() if key != "values"}, is_needed=False)
    return 200, await app.gateway.prompts.try_out(caller, names[0], text, values)


def _text(body: Json, *, is_needed: bool) -> str | None:
    unknown = sorted(body.keys() - {"instructions", "text"})
    if unknown:
        raise ArgumentError(
            f"Unknown member {unknown[0]!r:.60}.", allowed="Allowed: instructions, text, values."
        )
    text: object = body.get("instructions", body.get("text"))
    if text is None and not is_needed:
        return None
    if not isinstance(text, str):
        raise ArgumentError("Member 'instructions' is missing.", hint="Give it the new text.")
    return text


TURNS: Mapping[tuple[str, str], TurnAnswer] = {
    ("GET", "threads"): _threads,
    ("DELETE", "threads/*"): _delete_thread,
    ("GET", "threads/*/usage"): _thread_usage,
    ("GET", "threads/*/settings"): _settings,
    ("PATCH", "threads/*/settings"): _change_settings,
    ("GET", "chat/settings"): _settings,
    ("PATCH", "chat/settings"): _change_settings,
    ("GET", "prompts"): _prompts,
    ("DELETE", "prompts"): _clear_prompts,
    ("GET", "prompts/*"): _prompt,
    ("PATCH", "prompts/*"): _replace_prompt,
    ("DELETE", "prompts/*"): _clear_prompt,
    ("GET", "prompts/*/versions"): _prompt_versions,
    ("POST", "prompts/*/test"): _test_prompt,
}
"""Handlers by method and path."""
