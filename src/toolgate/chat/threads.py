"""Chat threads: their settings, messages, costs and deletion."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from time import monotonic

from toolgate.base.ids import new_id, utc_now
from toolgate.chat.base import Choices
from toolgate.chat.transcript import message_views
from toolgate.chat.turns.turn_settings import choices_from, read_choices
from toolgate.models.llm import ModelRegistry
from toolgate.settings import CurrentSettings
from toolgate.store import PROJECT_THREAD, StoredThread, ThreadRepository
from toolgate.types import Caller, Json, json_array, json_object

_AGE_S = 1.0
"""Seconds for which a project's settings are cached, since other processes may write (chosen)."""


class ThreadService:
    """The threads of callers, for reading and changing them."""

    def __init__(
        self, store: ThreadRepository, settings: CurrentSettings, models: ModelRegistry
    ) -> None:
        self._store = store
        self._settings = settings
        self._models = models
        self._of_projects: dict[str, tuple[float, Json]] = {}
        """When the settings of a project were read, and what they are."""

    async def choices(
        self, caller: Caller, thread: str | None, asked: Mapping[str, object] | None = None
    ) -> Choices:
        """Return the settings that a turn would have now."""
        row = await self._thread_row(caller, thread) if thread is not None else None
        return choices_from(
            self._settings.current.chat,
            await self.project_settings(caller),
            row.settings if row is not None else {},
            asked or {},
        )

    async def settings(self, caller: Caller, thread: str | None) -> Json:
        """Return the `set` and the effective settings of a thread; without one, of the project."""
        if thread is None:
            project_row = await self.project_settings(caller)
        else:
            row = await self._thread_row(caller, thread)
            project_row = row.settings if row is not None else {}
        return {"set": project_row, "active": asdict(await self.choices(caller, thread))}

    async def change_settings(self, caller: Caller, thread: str | None, changes: Json) -> Json:
        """Change settings of a thread, or of the project; null resets one.

        Raises:
            ArgumentError: A setting does not exist, or its value is invalid.
        """
        read_choices({name: value for name, value in changes.items() if value is not None})
        if isinstance(model := changes.get("model"), str) and model:
            self._models.name_of(model)
        unknown = set(changes) - {item.name for item in fields(Choices)}
        if unknown:
            read_choices(dict.fromkeys(unknown, ""))
        owner = PROJECT_THREAD if thread is None else caller.caller_id
        stored = await self._store.get(caller.project_id, owner, thread or PROJECT_THREAD)
        values = dict(stored.settings) if stored is not None else {}
        values = {name: value for name, value in {**values, **changes}.items() if value is not None}
        row = StoredThread(
            thread_id=new_id(),
            project_id=caller.project_id,
            caller_id=owner,
            name=thread or PROJECT_THREAD,
        )
        await self._store.save_settings(row, values, now=utc_now())
        self._of_projects.pop(caller.project_id, None)
        return await self.settings(caller, thread)

    async def _thread_row(self, caller: Caller, name: str) -> StoredThread | None:
        return await self._store.get(caller.project_id, caller.caller_id, name)

    async def project_settings(self, caller: Caller) -> Json:
        """Return the settings for all threads of a project, at most a second old."""
        cached = self._of_projects.get(caller.project_id)
        if cached is not None and monotonic() - cached[0] < _AGE_S:
            return cached[1]
        row = await self._store.get(caller.project_id, PROJECT_THREAD, PROJECT_THREAD)
        values = {} if row is None else row.settings
        self._of_projects[caller.project_id] = (monotonic(), values)
        return values

    async def recent(
        self, caller: Caller, *, with_responses: bool = False, limit: int = 100
    ) -> list[StoredThread]:
        """Return the caller's threads, most recently used first.

        Args:
            caller: The caller.
            with_responses: Whether to include the threads of single responses, of which a client
                may make one with each request.
            limit: At most as many.
        """
        rows = await self._store.select(
            caller.project_id, caller.caller_id, with_responses=with_responses, limit=limit
        )
        return [row for row in rows if row.name]

    async def history(
        self, caller: Caller, thread: str, *, limit: int = 100, before: int | None = None
    ) -> Json | None:
        """Return a page of the newest messages, oldest first; None if the thread does not exist."""
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
        """Return the cost of each model request in a thread, oldest first."""
        row = await self._thread_row(caller, thread)
        if row is None:
            return []
        return [asdict(row) for row in await self._store.spending(row.thread_id)]

    async def clear(self, caller: Caller, thread: str) -> bool:
        """Delete the messages of a thread. False if it does not exist."""
        row = await self._thread_row(caller, thread)
        if row is None:
            return False
        await self._store.clear(row.thread_id, now=utc_now())
        return True

    async def delete(self, caller: Caller, thread: str) -> bool:
        """Delete a thread with its settings. False if it does not exist."""
        row = await self._thread_row(caller, thread)
        return row is not None and await self._store.delete(row.thread_id)

    async def waiting(self, caller: Caller, thread: str) -> list[Json]:
        """Return the calls of a thread that wait for approval."""
        row = await self._thread_row(caller, thread)
        pending = json_object(row.state.get("pending")) if row is not None else {}
        return [json_object(call) for call in json_array(pending.get("calls"))]
