"""The context of a tool call: workspace, databases, and the solution to change."""

import shlex
import subprocess
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Final, cast

from toolgate import Context
from toolgate.packs.builtin.servoy._errors import ToolRefusedError
from toolgate.packs.builtin.servoy.database.live_server import LiveServer
from toolgate.packs.builtin.servoy.database.tables import Databases, Server
from toolgate.packs.builtin.servoy.files.workspace import Solution, StoredObject, Workspace

ACTIVE: Final = "active"
"""Context name of the active solution."""

_MAX_CONVERSATIONS: Final = 1_000
"""Conversations that are remembered (chosen: bounds memory)."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[packs.options.servoy]`."""

    workspace: str = ""
    """The folder of one or several solutions; empty: the working folder of the client if it is
    known, else of Toolgate."""

    solution: str = ""
    """The solution to work on; empty: the only one in the workspace that is not a module."""

    editor_command: tuple[str, ...] = ()
    """The command that opens a file, with `{path}` in place of the file's path."""

    @classmethod
    def read(cls, table: Mapping[str, object]) -> "Options":
        """Read the options.

        Raises:
            ToolRefusedError: An option is unknown or invalid.
        """
        where = "[packs.options.servoy]"
        for key in table:
            if key not in {"workspace", "solution", "editor_command"}:
                raise ToolRefusedError(
                    f"{where} has no key {key!r}. Allowed: workspace, solution, editor_command."
                )
        texts: dict[str, str] = {}
        for key in ("workspace", "solution"):
            value = table.get(key, "")
            if not isinstance(value, str):
                raise ToolRefusedError(f"{where} {key} is {value!r}. It has to be a text.")
            texts[key] = value
        return cls(**texts, editor_command=_command(table.get("editor_command", ""), where))


def _command(value: object, where: str) -> tuple[str, ...]:
    try:
        parts = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ToolRefusedError(f"{where} editor_command is {value!r}: {error}.") from error
    if not isinstance(parts, list | tuple) or not all(
        isinstance(part, str) for part in cast("Sequence[object]", parts)
    ):
        raise ToolRefusedError(f"{where} editor_command is {value!r}. Write it as a list of texts.")
    return tuple(cast("Sequence[str]", parts))


class _ConversationMemory:
    """Remembers the chosen solution and the last opened form of each conversation."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: OrderedDict[tuple[str, ...], str] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> str:
        with self._lock:
            return self._values.get(key, "")

    def set(self, key: tuple[str, ...], value: str) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > _MAX_CONVERSATIONS:
                self._values.popitem(last=False)


_conversations = _ConversationMemory()
_editors: list["subprocess.Popen[bytes]"] = []


@dataclass(frozen=True, kw_only=True)
class ServoyCall:
    """The workspace during one call: read once, then unchanged."""

    options: Options
    """Options of the pack."""

    workspace: Workspace
    """The workspace."""

    live: Mapping[str, Server] = field(default_factory=dict[str, Server])
    """Connected databases by server name."""

    conversation: tuple[str, ...] = ()
    """Identifies the conversation of the call."""

    @classmethod
    def from_options(
        cls,
        options: Options,
        *,
        live: Mapping[str, Server] | None = None,
        conversation: tuple[str, ...] = (),
        folder: str = "",
    ) -> "ServoyCall":
        """Create the context from options; `folder` is used if they name no workspace.

        Raises:
            ToolRefusedError: The workspace does not exist.
        """
        path = Path(options.workspace).expanduser() if options.workspace else Path(folder or ".")
        workspace = Workspace.open(path.absolute(), options.solution)
        return cls(options=options, workspace=workspace, live=live or {}, conversation=conversation)

    @cached_property
    def databases(self) -> Databases:
        """The servers of the workspace and the connected databases."""
        return Databases(self.workspace, self.live)

    @property
    def target(self) -> Solution:
        """The solution to change: the active one, or the chosen module."""
        name = _conversations.get(self._key("context"))
        return next((e for e in self.workspace.modules if e.name == name), self.workspace.active)

    @property
    def contexts(self) -> list[str]:
        """The contexts that can be chosen: `active` and the modules."""
        return [ACTIVE, *(module.name for module in self.workspace.modules)]

    def choose_context(self, context: str) -> Solution:
        """Choose the solution that further calls in this conversation change.

        Raises:
            ToolRefusedError: The context does not exist.
        """
        if context == self.workspace.active.name:
            context = ACTIVE
        if context not in self.contexts:
            raise ToolRefusedError(
                f"Context '{context}' not found. Available: {', '.join(self.contexts)}"
            )
        _conversations.set(self._key("context"), context)
        return self.target

    @property
    def last_form(self) -> str:
        """Name of the form that was last opened in this conversation."""
        return _conversations.get(self._key("form"))

    def remember_form(self, name: str) -> None:
        """Remember the form that was last opened."""
        _conversations.set(self._key("form"), name)

    def context_of(self, solution: str) -> str:
        """Return the context name of a solution."""
        return ACTIVE if solution == self.workspace.active.name else solution

    def label_of(self, solution: str) -> str:
        """Return the label of a solution in results."""
        kind = "active solution" if solution == self.workspace.active.name else "module"
        return f"{kind} '{solution}'"

    @contextmanager
    def exclusive(self) -> "Generator[ServoyCall]":
        """Lock the workspace against other writers, and yield a freshly read context.

        Raises:
            ToolRefusedError: Another process holds the lock.
        """
        with self.workspace.journal.locked():
            yield self.reloaded()

    def reloaded(self) -> "ServoyCall":
        """Return a freshly read context."""
        fresh = Workspace(folder=self.workspace.folder, solution_name=self.workspace.solution_name)
        return replace(self, workspace=fresh)

    def preferred(self, objects: Sequence[StoredObject]) -> StoredObject | None:
        """Return that of several objects which is in the solution to change, or else the first."""
        target = self.target.name
        return next((e for e in objects if e.solution == target), objects[0] if objects else None)

    def open_editor(self, paths: Sequence[Path]) -> str:
        """Open files in the configured editor. Returns why this failed, or an empty text."""
        _editors[:] = [process for process in _editors if process.poll() is None]
        if not self.options.editor_command:
            return ""
        for path in paths:
            command = [part.replace("{path}", str(path)) for part in self.options.editor_command]
            if command == list(self.options.editor_command):
                command.append(str(path))
            try:
                _editors.append(_started(command))
            except OSError as error:
                reason = error.strerror or str(error)
                return f"The editor {command[0]!r} could not be started: {reason}."
        return ""

    def _key(self, topic: str) -> tuple[str, ...]:
        return (topic, str(self.workspace.folder), self.workspace.solution_name, *self.conversation)


def _started(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 -- the command is what the operator has set
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def servoy_call(context: Context) -> ServoyCall:
    """Return the context for a tool call.

    Raises:
        ToolRefusedError: The options are invalid, or the workspace does not exist.
    """
    connections = context.connections
    live: dict[str, Server] = {name: LiveServer(name, connections) for name in connections}
    return ServoyCall.from_options(
        Options.read(context.settings),
        live=live,
        conversation=(context.project, context.thread),
        folder=context.caller.folder,
    )
