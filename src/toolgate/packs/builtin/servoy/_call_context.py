"""What a call of a tool works with: the workspace, its databases, and which solution is meant."""

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
from toolgate.packs.builtin.servoy._errors import RefusedError
from toolgate.packs.builtin.servoy._live_database import LiveServer
from toolgate.packs.builtin.servoy._schema import Databases, Server
from toolgate.packs.builtin.servoy._workspace import Solution, Stored, Workspace

__all__ = ["ACTIVE", "Desk", "Options", "desk_of"]

ACTIVE: Final = "active"
"""What the active solution is called among contexts."""

_MOST_TALKS: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """Table `[packs.options.servoy]`."""

    workspace: str = ""
    """The folder of the solutions, or of one; empty: where the client works, if it is known, else
    where Toolgate runs."""

    solution: str = ""
    """The solution to work on; empty: the only one in the workspace that is no module."""

    editor_command: tuple[str, ...] = ()
    """The program that opens a file, with `{path}` where the file's path belongs."""

    @classmethod
    def read(cls, table: Mapping[str, object]) -> "Options":
        """The options as they are set.

        Raises:
            RefusedError: One is unknown, or not what it has to be.
        """
        where = "[packs.options.servoy]"
        for key in table:
            if key not in {"workspace", "solution", "editor_command"}:
                raise RefusedError(
                    f"{where} has no key {key!r}. Allowed: workspace, solution, editor_command."
                )
        texts: dict[str, str] = {}
        for key in ("workspace", "solution"):
            value = table.get(key, "")
            if not isinstance(value, str):
                raise RefusedError(f"{where} {key} is {value!r}. It has to be a text.")
            texts[key] = value
        return cls(**texts, editor_command=_command(table.get("editor_command", ""), where))


def _command(value: object, where: str) -> tuple[str, ...]:
    try:
        parts = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise RefusedError(f"{where} editor_command is {value!r}: {error}.") from error
    if not isinstance(parts, list | tuple) or not all(
        isinstance(each, str) for each in cast("Sequence[object]", parts)
    ):
        raise RefusedError(f"{where} editor_command is {value!r}. Write it as a list of texts.")
    return tuple(cast("Sequence[str]", parts))


class _Talks:
    """Per conversation, which solution is worked on and which form was looked at last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, ...], str] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> str:
        with self._lock:
            return self._kept.get(key, "")

    def set(self, key: tuple[str, ...], value: str) -> None:
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_TALKS:
                self._kept.popitem(last=False)


_talks = _Talks()
_editors: list["subprocess.Popen[bytes]"] = []


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One request's view; whatever is read once stays as it was read."""

    options: Options
    """As they are set."""

    workspace: Workspace
    """The workspace."""

    live: Mapping[str, Server] = field(default_factory=dict[str, Server])
    """Connected databases by the name of their server."""

    talk: tuple[str, ...] = ()
    """Which conversation this is part of."""

    @classmethod
    def at(
        cls,
        options: Options,
        *,
        live: Mapping[str, Server] | None = None,
        talk: tuple[str, ...] = (),
        folder: str = "",
    ) -> "Desk":
        """The desk for options; without a workspace in them that of a folder, or of this process.

        Raises:
            RefusedError: There is no such workspace.
        """
        place = Path(options.workspace).expanduser() if options.workspace else Path(folder or ".")
        workspace = Workspace.at(place.absolute(), options.solution)
        return cls(options=options, workspace=workspace, live=live or {}, talk=talk)

    @cached_property
    def databases(self) -> Databases:
        """The servers of the workspace and the connected ones."""
        return Databases(self.workspace, self.live)

    @property
    def target(self) -> Solution:
        """The solution that is changed: the active one, or the module that was chosen."""
        name = _talks.get(self._key("context"))
        return next((e for e in self.workspace.modules if e.name == name), self.workspace.active)

    @property
    def contexts(self) -> list[str]:
        """What can be chosen: `active` and the modules."""
        return [ACTIVE, *(each.name for each in self.workspace.modules)]

    def choose(self, context: str) -> Solution:
        """Work on another solution from now on, in this conversation.

        Raises:
            RefusedError: There is no such context.
        """
        if context == self.workspace.active.name:
            context = ACTIVE
        if context not in self.contexts:
            raise RefusedError(
                f"Context '{context}' not found. Available: {', '.join(self.contexts)}"
            )
        _talks.set(self._key("context"), context)
        return self.target

    @property
    def last_form(self) -> str:
        """Name of the form that was opened last in this conversation."""
        return _talks.get(self._key("form"))

    def note_form(self, name: str) -> None:
        """Remember the form that was opened last."""
        _talks.set(self._key("form"), name)

    def context_of(self, solution: str) -> str:
        """What a solution is called among contexts."""
        return ACTIVE if solution == self.workspace.active.name else solution

    def label_of(self, solution: str) -> str:
        """What a solution is called in answers."""
        kind = "active solution" if solution == self.workspace.active.name else "module"
        return f"{kind} '{solution}'"

    @contextmanager
    def alone(self) -> "Generator[Desk]":
        """This desk, read afresh, while nobody else changes the workspace.

        Raises:
            RefusedError: Somebody else does.
        """
        with self.workspace.journal.held():
            yield self.again()

    def again(self) -> "Desk":
        """This desk, read afresh."""
        fresh = Workspace(folder=self.workspace.folder, wanted=self.workspace.wanted)
        return replace(self, workspace=fresh)

    def first(self, found: Sequence[Stored]) -> Stored | None:
        """Of objects with one name, that of the solution that is changed, else the first."""
        target = self.target.name
        return next((e for e in found if e.solution == target), found[0] if found else None)

    def open_editor(self, paths: Sequence[Path]) -> str:
        """Open files in the editor that is set; why that failed, else nothing."""
        _editors[:] = [each for each in _editors if each.poll() is None]
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

    def _key(self, what: str) -> tuple[str, ...]:
        return (what, str(self.workspace.folder), self.workspace.wanted, *self.talk)


def _started(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 -- the command is what the operator has set
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def desk_of(context: Context) -> Desk:
    """The desk for a call of a tool.

    Raises:
        RefusedError: The options cannot be used, or there is no such workspace.
    """
    connections = context.connections
    live: dict[str, Server] = {name: LiveServer(name, connections) for name in connections}
    return Desk.at(
        Options.read(context.settings),
        live=live,
        talk=(context.project, context.thread),
        folder=context.caller.folder,
    )
