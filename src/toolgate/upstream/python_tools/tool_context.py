"""What an in-process tool may use while it runs: its caller, its client, its pack."""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

from pydantic_core import to_jsonable_python

from toolgate.errors import CannotAskError, ProgramError
from toolgate.types import Caller, Json, Peer
from toolgate.upstream.base import CallSink


@dataclass(frozen=True, kw_only=True)
class _CallScope:
    caller: Caller
    peer: Peer | None


_actor: ContextVar[_CallScope | None] = ContextVar("toolgate_actor", default=None)


@contextmanager
def acting_for(caller: Caller, peer: Peer | None = None) -> Generator[None]:
    """Tell tools that are called within the block for whom they run."""
    token = _actor.set(_CallScope(caller=caller, peer=peer))
    try:
        yield
    finally:
        _actor.reset(token)


RunProgram: TypeAlias = Callable[[Caller, str, Json, Json, Peer | None], Awaitable[Json]]


@dataclass(frozen=True, kw_only=True)
class ToolServices:
    """Services that Toolgate offers to a pack's tools."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The table `[packs.options.NAME]` of the pack."""

    connections: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Databases by their names in `[connections]`, each a `Connection`."""

    schemas: object = None
    """The history of their schemas, a `SchemaHistory`; None if nothing is stored."""

    chat: Callable[[], object] = lambda: None
    """Returns the configured chat model, a `ChatModel`; None if there is none."""

    store: object = None
    """The gateway's own store; None if nothing is stored."""

    may: Callable[[Caller, str], bool] = lambda _caller, _right: False
    """Whether a caller has a right: `manage`, `internal`, `approve`."""

    documents: object = None
    """The document operations, a `DocumentService`; None if there are none."""

    run_program: RunProgram = field(default_factory=lambda: _no_programs)
    """Runs a program, given the caller, the code, its inputs, the client's answers to questions,
    and the client; returns a `tools/call` result."""

    prompts: object = None
    """The prompt service, a `toolgate.gateway.prompts.PromptService`; None if there is none."""


async def _no_programs(*_: object) -> Json:
    raise ProgramError("There is no gateway that could run programs.")


class ToolContext:
    """What a tool may use while it runs.

    It is passed to any parameter annotated with this class, whatever its position and name; such
    a parameter is not part of the tool's schema.
    """

    def __init__(
        self,
        *,
        caller: Caller,
        peer: Peer | None,
        sink: CallSink | None,
        services: ToolServices | None = None,
        continuation: Json | None = None,
    ) -> None:
        self.caller = caller
        """The caller."""
        self.peer = peer
        """The connection to the client; None if there is no client."""
        self._sink = sink
        self._services = services or ToolServices()
        self._continuation = continuation or {}

    @property
    def project(self) -> str:
        """The project that the call belongs to."""
        return self.caller.project_id

    @property
    def thread(self) -> str:
        """The conversation that the call belongs to; empty if unknown."""
        return self.caller.conversation

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the tool's pack: the table `[packs.options.NAME]`."""
        return self._services.settings

    @property
    def connections(self) -> Mapping[str, Any]:
        """Databases by their names in `[connections]`, each with its `dialect` and `description`.

        `await connections["shop"].reading(work)` passes a SQLAlchemy connection to `work`, in a
        thread and in a transaction that cannot write.
        """
        return self._services.connections

    @property
    def schemas(self) -> Any:
        """The history of the schemas of `connections`; None if nothing is stored."""
        return self._services.schemas

    @property
    def chat(self) -> Any:
        """The configured chat model, a `ChatModel`; None if there is none.

        `reply = await complete(context.chat, ChatRequest(messages=(Message(role="user",
        content="..."),)))`, with the names of `toolgate.models.llm`, asks it for one answer.
        """
        return self._services.chat()

    @property
    def store(self) -> Any:
        """The gateway's own store; None if nothing is stored."""
        return self._services.store

    @property
    def documents(self) -> Any:
        """The document operations; None if there are none."""
        return self._services.documents

    @property
    def prompts(self) -> Any:
        """The prompt operations; None if there are none."""
        return self._services.prompts

    async def run_program(self, code: str, inputs: Json, *, asks: bool = False) -> Json:
        """Run a program that may use the gateway's tools for the caller; a `tools/call` result.

        Args:
            code: The program.
            inputs: Its inputs.
            asks: Whether the client is asked what the program's calls ask. The tool then has to
                return the result unchanged: it may be a question, and the client's answer comes
                with another call of the tool.

        Raises:
            ProgramError: It cannot be run, failed, or waits for a person.
            HandleError: The client's answer belongs to another call.
        """
        continuation, peer = (self._continuation, self.peer) if asks else ({}, None)
        return await self._services.run_program(self.caller, code, inputs, continuation, peer)

    def may(self, right: str) -> bool:
        """Whether the caller has a right: `manage`, `internal`, `approve`."""
        return self._services.may(self.caller, right)

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the client; this also extends the deadline of the call."""
        if self._sink is not None:
            params: Json = {"progress": progress, "total": total, "message": message}
            await self._sink.progress(
                {key: value for key, value in params.items() if value is not None}
            )

    async def log(self, level: str, data: object, *, logger: str | None = None) -> None:
        """Send the client a message: `debug info notice warning error critical alert emergency`."""
        if self._sink is not None:
            # A log message must not make a tool fail, whatever it contains.
            params: Json = {"level": level, "data": to_jsonable_python(data, fallback=str)}
            await self._sink.log(params if logger is None else {**params, "logger": logger})

    async def ask(self, method: str, params: Json) -> Json:
        """Ask the client (`elicitation/create`, `sampling/createMessage`, `roots/list`).

        Raises:
            CannotAskError: The client cannot be asked this.
            RpcError: The client answered with an error.
        """
        if self._sink is None:
            raise CannotAskError("Nobody can be asked: the call was made without a client.")
        return await self._sink.ask(method, params)


def is_context(hint: object) -> bool:
    """Whether a parameter's annotation is `ToolContext` or `ToolContext | None`."""
    return hint is ToolContext or ToolContext in get_args(hint)


def context_of_call(
    sink: CallSink | None,
    services: ToolServices | None = None,
    continuation: Json | None = None,
) -> ToolContext:
    """The context of the current call."""
    actor = _actor.get() or _CallScope(caller=Caller.local(), peer=None)
    return ToolContext(
        caller=actor.caller,
        peer=actor.peer,
        sink=sink,
        services=services,
        continuation=continuation,
    )
