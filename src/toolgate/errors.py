"""All errors that Toolgate raises on purpose: one per case that callers handle differently.

```
ToolgateError
  ConfigError
    SettingError
    UnknownPluginError
    MissingExtraError
    BrokenPluginError
    OptionError
    StoreVersionError
    PortTakenError
    PackError
  AccessError
    CredentialError
    ForbiddenError
    LimitError
    GuardError
      ApprovalError
  CatalogError
    UnknownServerError
    UnknownToolError
    UnknownResourceError
    UnknownPromptError
    UnknownEntryError
    UnknownApprovalError
  ArgumentError
    UnknownResponseError
    DecidedError
  HandleError
  UpstreamError
    UnreachableError
      ConnectionLostError
      ServerDownError
    TimedOutError
    InvalidAnswerError
    CannotAskError
    LoginNeededError
    RpcError
  StoreError
  EmbedderError
  RerankerError
  DatabaseError
  StatementError
  ModelError
    ModelAuthError
    ModelRateError
    ModelTimeoutError
    ContextTooLongError
    ModelRequestError
    ModelUnavailableError
    UnknownModelError
  DocumentError
  ProgramError
  ThreadBusyError
```

Independent of wire formats: `server` maps `code` to the errors of its protocol.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal


class ToolgateError(Exception):
    """Base of all errors that Toolgate raises on purpose.

    A message has up to three sentences: what failed and what was received (`failed`), what is
    allowed (`allowed`), what to do next (`hint`). It never contains secrets. Addresses, paths
    and output of servers go into `detail`, which only administrators and logs get.
    """

    code: ClassVar[str] = "toolgate"
    """Stable name for logs, REST answers and the headings of the troubleshooting page."""

    retryable: bool = False
    """Whether the same request can succeed later although the caller changes nothing."""

    def __init__(self, failed: str, *, detail: str = "", allowed: str = "", hint: str = "") -> None:
        super().__init__(" ".join(part for part in (failed, allowed, hint) if part))
        self.failed = failed
        self.detail = detail
        self.allowed = allowed
        self.hint = hint

    def summary(self, *, with_detail: bool) -> str:
        """Return what failed and what is allowed, for answers that carry the hint separately."""
        parts = (self.failed, self.detail if with_detail else "", self.allowed)
        return " ".join(part for part in parts if part) or str(self)

    @property
    def full_text(self) -> str:
        """The message with its detail, for administrators and logs."""
        parts = (self.failed, self.detail, self.allowed, self.hint)
        return " ".join(part for part in parts if part)


class ConfigError(ToolgateError):
    """The configuration is invalid; the operator has to change it."""

    code = "config"


class SettingError(ConfigError):
    """A configuration file cannot be read, or a setting is unknown or has a wrong value."""

    code = "setting"

    at: tuple[Path, tuple[str | int, ...]] | None = None
    """The file and the key that is wrong; None if it is not a single key."""


class UnknownPluginError(ConfigError):
    """The settings name an implementation that does not exist."""

    code = "unknown_plugin"


class MissingExtraError(ConfigError):
    """The implementation exists, but a library that it needs is not installed."""

    code = "missing_extra"


class BrokenPluginError(ConfigError):
    """The implementation violates the contract of its seam; its author has to change it."""

    code = "broken_plugin"


class OptionError(ConfigError, ValueError):
    """An option of an implementation is unknown, of the wrong type or out of range."""

    code = "option"

    option: str = ""
    """Name of the option in its own table, if its own implementation rejects it; else empty."""

    problem: str = ""
    """What is wrong, safe to show."""


class StoreVersionError(ConfigError):
    """The store has a schema that is unknown to this version of Toolgate or needs an upgrade."""

    code = "store_version"


class PortTakenError(ConfigError):
    """Another program listens on Toolgate's port."""

    code = "port_taken"


class PackError(ConfigError):
    """A file of a pack cannot be used; the message names the file, the line and the reason."""

    code = "pack"


class AccessError(ToolgateError):
    """The caller lacks access, permanently or for now."""

    code = "access"
    caller_id = ""
    """The caller who was refused, for the audit; empty if unknown."""


class CredentialError(AccessError):
    """The caller is unknown: a credential is missing or invalid."""

    code = "credential"

    def __init__(
        self,
        failed: str,
        *,
        was_presented: bool = True,
        was_issued: bool = False,
        caller_id: str = "",
        wait_s: float = 0.0,
        allowed: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.was_presented = was_presented
        """Whether a credential was presented at all."""
        self.caller_id = caller_id
        self.was_issued = was_issued
        """Whether it is genuine but expired or revoked, and so not a guess."""
        self.wait_s = wait_s
        """Seconds that the client must wait after too many wrong credentials; 0: none."""


class ForbiddenError(AccessError):
    """A known caller lacks a permission, and may know that the thing exists."""

    code = "forbidden"


class LimitError(AccessError):
    """The caller has reached a limit."""

    code = "limit"
    retryable = True

    def __init__(
        self, failed: str, *, wait_s: float = 0.0, allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.wait_s = wait_s
        """Seconds until a retry makes sense; 0: unknown."""


class GuardError(AccessError):
    """A configured guard blocks a call or its result."""

    code = "guard"


class ApprovalError(GuardError):
    """A call needs the approval of a person, which it does not have."""

    code = "approval"

    def __init__(
        self,
        failed: str,
        *,
        approval_id: str,
        state: str,
        expires_at: str,
        allowed: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.retryable = state == "waiting"
        self.approval_id = approval_id
        """The approval that a person has to give, or has refused."""
        self.state = state
        """`waiting` or `rejected`."""
        self.expires_at = expires_at
        """When the approval can be requested again; UTC, ISO 8601."""


class CatalogError(ToolgateError):
    """The requested object is not in the catalog of this caller."""

    code = "catalog"


class UnknownServerError(CatalogError):
    """No server has this name."""

    code = "unknown_server"


class UnknownToolError(CatalogError):
    """This caller has no such tool; hidden and nonexistent tools give the same error."""

    code = "unknown_tool"


class UnknownResourceError(CatalogError):
    """No server offers this resource."""

    code = "unknown_resource"


class UnknownPromptError(CatalogError):
    """No server offers this prompt."""

    code = "unknown_prompt"


class UnknownEntryError(CatalogError):
    """No such tool, prompt, resource, template or instructions are quarantined."""

    code = "unknown_entry"


class UnknownApprovalError(CatalogError):
    """No call with this ID that the caller may know of waits for approval."""

    code = "unknown_approval"


class ArgumentError(ToolgateError):
    """The arguments do not match the parameters; the message says what is allowed."""

    code = "argument"


class UnknownResponseError(ArgumentError):
    """The caller has no stored response of the Responses API with this ID."""

    code = "unknown_response"


class DecidedError(ArgumentError):
    """The approval was already decided, or has expired."""

    code = "decided"


class HandleError(ToolgateError):
    """A handle or state issued by Toolgate is unknown, expired, altered or another caller's."""

    code = "handle"


class UpstreamError(ToolgateError):
    """A server behind the gateway failed."""

    code = "upstream"


class UnreachableError(UpstreamError):
    """The server could not be reached."""

    code = "unreachable"
    retryable = True


class ConnectionLostError(UnreachableError):
    """The connection was lost before the answer arrived."""

    code = "connection_lost"

    def __init__(
        self, failed: str, *, sent: bool, expired: bool = False, allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.retryable = not sent
        self.sent = sent
        """Whether the request may have reached the server, so that the call may have run."""
        self.expired = expired
        """Whether the server said that the session is unknown; then it did not run the request."""


class ServerDownError(UnreachableError):
    """The server is down, disabled or gone."""

    code = "server_down"

    def __init__(
        self,
        failed: str,
        *,
        allowed: str = "",
        detail: str = "",
        hint: str = "",
        retryable: bool = True,
    ) -> None:
        super().__init__(failed, allowed=allowed, detail=detail, hint=hint)
        self.retryable = retryable

    @staticmethod
    def disabled(server: str, problem: str) -> "ServerDownError":
        """Create the error for a call to a server that is disabled, perhaps for a problem."""
        return ServerDownError(
            f"Server {server!r} is disabled.",
            detail=problem,
            hint="See: toolgate doctor" if problem else f"Run: toolgate servers enable {server}",
            retryable=False,
        )


class TimedOutError(UpstreamError):
    """The server did not answer before the deadline; whether the call took effect is unknown."""

    code = "timed_out"


class InvalidAnswerError(UpstreamError):
    """The server sent an answer that the protocol does not allow."""

    code = "invalid_answer"


class CannotAskError(UpstreamError):
    """The server asks the user or the model, but no client can be asked."""

    code = "cannot_ask"


class LoginNeededError(UpstreamError):
    """The server requires the caller to log in, and the login is missing or no longer valid."""

    code = "login_needed"

    def __init__(
        self, failed: str, *, server: str, url: str = "", allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.server = server
        """Name of the server."""
        self.url = url
        """URL where the person logs in with a browser; empty if there is none."""


class RpcError(UpstreamError):
    """The server answered with a JSON-RPC error, which is passed to the client unchanged."""

    code = "rpc"

    def __init__(self, rpc_code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        """The `code` member of the JSON-RPC error."""
        self.message = message
        """The `message` member."""
        self.data = data
        """The `data` member; None if there is none."""


class StoreError(ToolgateError):
    """The database could not be read or written: full disk, lock, lost connection."""

    code = "store"
    retryable = True


class EmbedderError(ToolgateError):
    """The embedding model cannot be read, or the service behind it failed."""

    code = "embedder"
    retryable = True


class RerankerError(ToolgateError):
    """The reranking model cannot be read, or the service behind it failed."""

    code = "reranker"
    retryable = True


class DatabaseError(ToolgateError):
    """A connected database cannot be reached or read."""

    code = "database"
    retryable = True

    def __init__(
        self, failed: str, *, kind: str = "other", allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.kind = kind
        """The type of error, for programs: `refused`, `unknown_host`, `authentication`, `timeout`,
        `busy`."""


class StatementError(ToolgateError):
    """A statement is not run: it may change data, or the database does not understand it."""

    code = "statement"


class ModelError(ToolgateError):
    """A chat model did not answer correctly."""

    code = "model"


class ModelAuthError(ModelError):
    """The service of a chat model rejects its key."""

    code = "model_auth"


class ModelRateError(ModelError):
    """The service of a chat model accepts no more requests for now."""

    code = "model_rate"
    retryable = True

    def __init__(
        self, failed: str, *, wait_s: float = 0.0, allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.wait_s = wait_s
        """Seconds until a retry makes sense, according to the service; 0: unknown."""


class ModelTimeoutError(ModelError):
    """A chat model took too long to answer."""

    code = "model_timeout"
    retryable = True


class ContextTooLongError(ModelError):
    """The conversation is longer than the chat model's context."""

    code = "context_too_long"


class ModelRequestError(ModelError):
    """The service of a chat model rejects a request as invalid."""

    code = "model_request"


class ModelUnavailableError(ModelError):
    """A chat model cannot be reached, stopped midway, or sent an unreadable answer."""

    code = "model_unavailable"
    retryable = True


class UnknownModelError(ModelError):
    """No chat model has this name, or none is configured."""

    code = "unknown_model"


class DocumentError(ToolgateError):
    """A file cannot be added as a document: empty, damaged, encrypted, too large, unknown type."""

    code = "document"


class ProgramError(ToolgateError):
    """A program of a model cannot be run, failed, or exceeded a limit."""

    code = "program"

    is_waiting: bool = False
    """Whether it continues once a person has approved its calls."""

    waiting: Mapping[str, Any] = MappingProxyType({})
    """What it waits for: its `id`, and `calls` with `approval_id`, `function`, `arguments`,
    `text`."""

    stage: Literal["", "check", "run"] = ""
    """When its own code failed: before it ran, or while it ran; empty: it did not."""


class ThreadBusyError(ToolgateError):
    """Another turn of the thread is running, and only one may run at a time."""

    code = "thread_busy"
    retryable = True
