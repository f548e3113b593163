"""Threads of conversations: their settings, messages, cost and removal."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields

from toolgate.base.ids import new_id, utc_now
from toolgate.chat.base import Choices
from toolgate.chat.transcript import message_views
from toolgate.chat.turns.turn_settings import choices_from, read_choices
from toolgate.models.llm import ModelRegistry
from toolgate.settings import ChatSettings
from toolgate.store import StoredThread, ThreadRepository
from toolgate.types import Caller, Json, json_array, json_object

__all__ = ["ThreadService"]

_PROJECT = ""
"""Name and owner of the row that has the settings of a project."""


class ThreadService:
    """The threads of callers, as they look at and change them."""

    def __init__(
        self, store: ThreadRepository, settings: Callable[[], ChatSettings], models: ModelRegistry
    ) -> None:
        self._store = store
        self._settings = settings
        self._models = models

    async def choices(
        self, caller: Caller, thread: str | None, asked: Mapping[str, object] | None = None
    ) -> Choices:
        """What a turn would go by now."""
        row = await self._thread_row(caller, thread) if thread is not None else None
        return choices_from(
            self._settings(),
            await self.project_settings(caller),
            row.settings if row is not None else {},
            asked or {},
        )

    async def settings(self, caller: Caller, thread: str | None) -> Json:
        """Settings of a thread, or of the project without one: what was `set`, and what holds."""
        if thread is None:
            project_row = await self.project_settings(caller)
        else:
            row = await self._thread_row(caller, thread)
            project_row = row.settings if row is not None else {}
        return {"set": project_row, "in_force": asdict(await self.choices(caller, thread))}

    async def change_settings(self, caller: Caller, thread: str | None, changes: Json) -> Json:
        """Set some settings of a thread, or of the project; null takes one back.

        Raises:
            ArgumentError: One does not exist, or has a value that does not fit.
        """
        read_choices({name: value for name, value in changes.items() if value is not None})
        if isinstance(model := changes.get("model"), str) and model:
            self._models.name_of(model)
        unknown = set(changes) - {item.name for item in fields(Choices)}
        if unknown:
            read_choices(dict.fromkeys(unknown, ""))
        owner = _PROJECT if thread is None else caller.caller_id
        stored = await self._store.get(caller.project_id, owner, thread or _PROJECT)
        values = dict(stored.settings) if stored is not None else {}
        values = {name: value for name, value in {**values, **changes}.items() if value is not None}
        row = StoredThread(
            thread_id=new_id(),
            project_id=caller.project_id,
            caller_id=owner,
            name=thread or _PROJECT,
        )
        await self._store.save_settings(row, values, now=utc_now())
        return await self.settings(caller, thread)

    async def _thread_row(self, caller: Caller, name: str) -> StoredThread | None:
        return await self._store.get(caller.project_id, caller.caller_id, name)

    async def project_settings(self, caller: Caller) -> Json:
        """Settings that hold in all threads of a project."""
        row = await self._store.get(caller.project_id, _PROJECT, _PROJECT)
        return {} if row is None else row.settings

    async def recent(self, caller: Caller, *, limit: int = 100) -> list[StoredThread]:
        """The caller's threads, the last used first."""
        rows = await self._store.select(caller.project_id, caller.caller_id, limit=limit)
        return [row for row in rows if row.name]

    async def history(
        self, caller: Caller, thread: str, *, limit: int = 100, before: int | None = None
    ) -> Json | None:
        """A page of a thread, the newest messages, oldest first; None: there is no such thread."""
        row = await self._thread_row(caller, thread)
        if row is None:
            return None
        stored = await self._store.messages(row.thread_id, before=before, limit=limit)
        artifact_ids = [
            str(message.notes["artifact"]) for message in stored if "artifact" in message.notes
        ]
        artifacts = await self._store.artifacts(row.thread_id, list(dict.fromkeys(artifact_ids)))
        first = stored[0].number if stored else 0
        return {
            "thread_id": thread,
            "messages": message_views(
                stored, {artifact.artifact_id: artifact for artifact in artifacts}
            ),
            "has_more": first > 1 and len(stored) == limit,
            "before": first,
            "pending": json_array(json_object(row.state.get("pending")).get("calls")),
            "running": row.running,
        }

    async def spending(self, caller: Caller, thread: str) -> list[Json]:
        """What each request to a model cost in a thread, oldest first."""
        row = await self._thread_row(caller, thread)
        if row is None:
            return []
        return [asdict(row) for row in await self._store.spending(row.thread_id)]

    async def clear(self, caller: Caller, thread: str) -> bool:
        """Forget what was said in a thread; False: there is no such thread."""
        row = await self._thread_row(caller, thread)
        if row is None:
            return False
        await self._store.clear(row.thread_id, now=utc_now())
        return True

    async def delete(self, caller: Caller, thread: str) -> bool:
        """Remove a thread, settings and all; False: there is no such thread."""
        row = await self._thread_row(caller, thread)
        return row is not None and await self._store.delete(row.thread_id)

    async def waiting(self, caller: Caller, thread: str) -> list[Json]:
        """The calls of a thread that wait for a person."""
        row = await self._thread_row(caller, thread)
        pending = json_object(row.state.get("pending")) if row is not None else {}
        return [json_object(call) for call in json_array(pending.get("calls"))]
