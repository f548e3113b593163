"""The transport `stdio`: a child process that Toolgate starts.

The child gets its own process group, and only its configured variables and a safe minimum of our
environment. It may print anything on standard output: what is not a message is counted and
ignored. When the wire is closed, the whole group is ended, even if the child itself is long
gone; the orphan guard does the same if Toolgate is killed.

On Windows there are no process groups: the child is ended, but its own children and orphans are
not. A child that starts its own session (a daemon) leaves the group on every system.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from toolgate.errors import OptionError
from toolgate.upstream.base import Credential, WireEvents
from toolgate.upstream.transports._child_process import READ_BYTES, Child
from toolgate.upstream.transports._duplex import DuplexWire, PendingRequest
from toolgate.upstream.transports._jsonrpc import read_big_message
from toolgate.upstream.transports._message_lines import LineFramer, OverlongMessage
from toolgate.upstream.transports._orphan_guard import OrphanGuard

log = logging.getLogger(__name__)

PATIENCE_S = 2.0
"""Seconds between closing the child's input, terminating its group, and killing it."""

GRACE_S = 0.25
"""Seconds for the last output of a child that has ended, and for the end of a silent one."""

NOTIFY_S = 2.0
"""Seconds a notification waits for a child that does not read."""

MOST_UNWRITTEN_BYTES = 4 * 2**20
"""Unread bytes above which small messages to a child are dropped instead of buffered."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options for starting a server over standard streams."""

    command: str
    """Program: a path, or a name that is looked up in the PATH of the child's environment."""

    args: tuple[str, ...] = ()
    """The arguments of the program."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables added to the safe minimum. WARNING: may contain secrets; never shown."""

    cwd: str | None = None
    """Working folder; None for ours."""

    def __post_init__(self) -> None:
        """Check for values that no operating system accepts.

        Raises:
            OptionError: The command is empty, or a text contains a zero byte.
        """
        if not self.command.strip():
            raise OptionError(
                "command is empty.", allowed="Allowed: the name or path of a program."
            )
        for name, texts in (("command", [self.command]), ("args", self.args)):
            if any("\0" in text for text in texts):
                raise OptionError(
                    f"{name} contains a NUL byte.", allowed="Allowed: any other text."
                )
        for name, value in self.env.items():
            if not name or "=" in name or "\0" in name + value:
                raise OptionError(
                    f"env contains a variable that cannot be set: {name!r}.",
                    allowed="Allowed: a name without '=', a value without a zero byte.",
                )


def build(
    options: Options,
    *,
    max_message_bytes: int,
    base_environment: Mapping[str, str],
    guard: OrphanGuard,
    credential: Credential | None = None,
) -> "StdioWire":
    """Create the wire for these options."""
    return StdioWire(options, max_message_bytes, base_environment, guard, credential)


class StdioWire(DuplexWire):
    """One child process and the messages on its standard streams."""

    def __init__(
        self,
        options: Options,
        max_message_bytes: int,
        base_environment: Mapping[str, str],
        guard: OrphanGuard,
        credential: Credential | None,
    ) -> None:
        super().__init__(max_message_bytes)
        self._credential = credential
        self._options = options
        self._env = {**base_environment, **options.env}
        self._guard = guard
        self._child: Child | None = None
        self._watching: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the child; None before it is started and after the wire is closed."""
        return None if self._child is None or self._closing is not None else self._child.pid

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """The last lines of the child's standard error."""
        return () if self._child is None else self._child.stderr_tail

    async def open(self, events: WireEvents) -> None:
        """Start the child.

        Raises:
            UnreachableError: Its command or folder cannot be used.
            LoginNeededError: It needs variables that nobody has supplied.
        """
        self._events = events
        options = self._options
        # Requested at each start: a login may have changed them.
        env = dict(self._env)
        if self._credential is not None:
            env.update(await self._credential.environment())
        self._child = await Child.start(options.command, options.args, env=env, cwd=options.cwd)
        self._guard.watch(self._child.pid)
        self._watching = asyncio.create_task(self._watch(self._child), name="toolgate-stdio")

    async def aclose(self) -> None:
        """Stop the child and its whole process group."""
        # Shielded and shared: a cancelled caller must not leave half a process group behind.
        if self._closing is None:
            self._end("The connection was closed.")
            self._closing = asyncio.create_task(self._close(), name="toolgate-stdio-close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._finish_questions()
        if self._child is not None:
            await self._child.end(patience_s=PATIENCE_S)
            self._guard.release(self._child.pid)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _send_call(
        self,
        text: bytes,
        call: PendingRequest,
        headers: Mapping[str, str],  # noqa: ARG002 -- contract
    ) -> None:
        child = await self._writable_child()
        # Before the write: if it fails halfway, the server may have the whole message.
        call.sent = True
        child.write(text)

    async def _send(self, text: bytes, headers: Mapping[str, str]) -> None:  # noqa: ARG002 -- contract
        with anyio.move_on_after(NOTIFY_S):
            (await self._writable_child()).write(text)

    def _send_soon(self, text: bytes, headers: Mapping[str, str]) -> None:  # noqa: ARG002 -- contract
        if self._child is None or self._end_reason is not None or self._child.stdin_lost.is_set():
            return
        # A child that does not read must not make the gateway buffer messages endlessly.
        if self._child.unwritten_bytes < MOST_UNWRITTEN_BYTES:
            self._child.write(text)

    async def _writable_child(self) -> Child:
        assert self._child is not None
        while self._end_reason is None and not self._child.stdin_lost.is_set():
            if self._child.is_writable:
                return self._child
            await self._child.wait_until_writable()
        await self.closed()  # in a moment it is known how it ended
        raise self._lost(sent=False)

    async def _watch(self, child: Child) -> None:
        """Read until the child ends, closes its output or closes its input."""
        reading = asyncio.create_task(self._read(child), name="toolgate-stdio-read")
        signs: list[asyncio.Task[Any]] = [
            reading,
            asyncio.create_task(child.exited.wait()),
            asyncio.create_task(child.stdin_lost.wait()),
        ]
        try:
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            # Its last lines may still be on their way when the process has ended.
            await asyncio.wait(signs[:2], timeout=GRACE_S)
            if reading.done() and (fault := reading.exception()):
                log.error("reading from a child failed", exc_info=fault)
            reason = child.how_it_ended()
            if child.status is None and not reading.done():
                reason = "The process closed its standard input."
            self._end(reason)
            await reading  # the child may still write, and would wait for ever if nobody read
        finally:
            for sign in signs:
                sign.cancel()
            await asyncio.gather(*signs, return_exceptions=True)

    async def _read(self, child: Child) -> None:
        framer = LineFramer(max_bytes=self._max_message_bytes)
        while chunk := await child.stdout.read(READ_BYTES):
            # Read on and drop: a child that is being stopped must not block on a full pipe.
            if self._end_reason is not None:
                continue
            for line in framer.feed(chunk):
                if isinstance(line, OverlongMessage):
                    self._take_overlong(line)
                elif line.lstrip()[:1] in {b"{", b"["}:
                    await self._take(await read_big_message(line))
                else:
                    self._stray += bool(line.strip())
