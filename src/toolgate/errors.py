"""Every error that Toolgate raises on purpose: a leaf per thing that a caller does differently.

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

Knows no wire format: `serve` maps `code` to what its protocol wants.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

__all__ = [
    "AccessError",
    "ApprovalError",
    "ArgumentError",
    "BrokenPluginError",
    "CannotAskError",
    "CatalogError",
    "ConfigError",
    "ConnectionLostError",
    "ContextTooLongError",
    "CredentialError",
    "DatabaseError",
    "DecidedError",
    "DocumentError",
    "EmbedderError",
    "ForbiddenError",
    "GuardError",
    "HandleError",
    "InvalidAnswerError",
    "LimitError",
    "LoginNeededError",
    "MissingExtraError",
    "ModelAuthError",
    "ModelError",
    "ModelRateError",
    "ModelRequestError",
    "ModelTimeoutError",
    "ModelUnavailableError",
    "OptionError",
    "PackError",
    "PortTakenError",
    "ProgramError",
    "RerankerError",
    "RpcError",
    "ServerDownError",
    "SettingError",
    "StatementError",
    "StoreError",
    "StoreVersionError",
    "ThreadBusyError",
    "TimedOutError",
    "ToolgateError",
    "UnknownApprovalError",
    "UnknownEntryError",
    "UnknownModelError",
    "UnknownPluginError",
    "UnknownPromptError",
    "UnknownResourceError",
    "UnknownServerError",
    "UnknownToolError",
    "UnreachableError",
    "UpstreamError",
]


class ToolgateError(Exception):
    """Base of the tree; catching it catches everything that Toolgate raises on purpose.

    A message has up to three sentences: what failed and what came (`failed`), what is allowed
    (`allowed`), what to do next (`hint`). No secret is ever part of it. Addresses, paths and what
    servers wrote go into `detail`, which only administrators and logs get.
    """

    code: ClassVar[str] = "toolgate"
    """Stable name for logs, REST answers and the heading in the troubleshooting page."""

    retryable: bool = False
    """Whether the same request can succeed later although the caller changes nothing."""

    def __init__(self, failed: str, *, detail: str = "", allowed: str = "", hint: str = "") -> None:
        super().__init__(" ".join(part for part in (failed, allowed, hint) if part))
        self.failed = failed
        self.detail = detail
        self.allowed = allowed
        self.hint = hint

    def summary(self, *, with_detail: bool) -> str:
        """What failed and what is allowed, for answers that carry the hint separately."""
        parts = (self.failed, self.detail if with_detail else "", self.allowed)
        return " ".join(part for part in parts if part) or str(self)

    @property
    def full_text(self) -> str:
        """The message with its detail, for administrators and logs."""
        parts = (self.failed, self.detail, self.allowed, self.hint)
        return " ".join(part for part in parts if part)


class ConfigError(ToolgateError):
    """The configuration cannot work; the operator changes it."""

    code = "config"


class SettingError(ConfigError):
    """A configuration file cannot be read, or a setting is unknown or has a wrong value."""

    code = "setting"

    at: tuple[Path, tuple[str | int, ...]] | None = None
    """The file and the key that is wrong; None where it is no single key."""


class UnknownPluginError(ConfigError):
    """The settings name an implementation that does not exist."""

    code = "unknown_plugin"


class MissingExtraError(ConfigError):
    """The implementation exists, but a library that it needs is not installed."""

    code = "missing_extra"


class BrokenPluginError(ConfigError):
    """The implementation does not keep the rules of its seam; its author changes it."""

    code = "broken_plugin"


class OptionError(ConfigError, ValueError):
    """An option of an implementation is unknown, of the wrong type or out of range."""

    code = "option"

    option: str = ""
    """Its name in its own table, where its own implementation refuses it; else empty."""

    problem: str = ""
    """What it is, as it may be shown."""


class StoreVersionError(ConfigError):
    """The store has a schema that this version of Toolgate does not know or has to upgrade."""

    code = "store_version"


class PortTakenError(ConfigError):
    """Another program listens where Toolgate should."""

    code = "port_taken"


class PackError(ConfigError):
    """A file of a pack cannot be used; the message names the file, the line and the reason."""

    code = "pack"


class AccessError(ToolgateError):
    """The caller may not, or may not yet."""

    code = "access"
    caller_id = ""
    """Who was refused, for the audit; empty if that is unknown."""


class CredentialError(AccessError):
    """Nobody is known to ask: a credential is missing, or the one that came is worth nothing."""

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
        """Whether a credential came at all."""
        self.caller_id = caller_id
        self.was_issued = was_issued
        """Whether it is genuine but expired or revoked, and so not a guess."""
        self.wait_s = wait_s
        """Seconds that the client must wait after too many wrong credentials; 0: none."""


class ForbiddenError(AccessError):
    """A known caller lacks a permission, and may know that the thing exists."""

    code = "forbidden"


class LimitError(AccessError):
    """The caller has used up what it may use for now."""

    code = "limit"
    retryable = True

    def __init__(
        self, failed: str, *, wait_s: float = 0.0, allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.wait_s = wait_s
        """Seconds until it is worth trying again; 0: nobody knows."""


class GuardError(AccessError):
    """A guard of the configuration does not let a call or its result through."""

    code = "guard"


class ApprovalError(GuardError):
    """A call runs only once a person has approved it, and nobody has."""

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
        """What a person approves, or has rejected."""
        self.state = state
        """`waiting` or `rejected`."""
        self.expires_at = expires_at
        """From when on the call can be asked for anew; UTC, ISO 8601."""


class CatalogError(ToolgateError):
    """The named thing is not in the catalog of this caller."""

    code = "catalog"


class UnknownServerError(CatalogError):
    """No server of this name."""

    code = "unknown_server"


class UnknownToolError(CatalogError):
    """No such tool for this caller: absent and hidden look the same."""

    code = "unknown_tool"


class UnknownResourceError(CatalogError):
    """No server offers this resource."""

    code = "unknown_resource"


class UnknownPromptError(CatalogError):
    """No server offers this prompt."""

    code = "unknown_prompt"


class UnknownEntryError(CatalogError):
    """No such tool, prompt, resource or template, and no such instructions, are quarantined."""

    code = "unknown_entry"


class UnknownApprovalError(CatalogError):
    """No call of this id waits for a person, as far as this caller may know."""

    code = "unknown_approval"


class ArgumentError(ToolgateError):
    """The arguments do not fit what was called; the message carries what fits."""

    code = "argument"


class DecidedError(ArgumentError):
    """Somebody has decided already, or it is too late to."""

    code = "decided"


class HandleError(ToolgateError):
    """A handle or state that Toolgate gave out is unknown, expired, altered or somebody else's."""

    code = "handle"


class UpstreamError(ToolgateError):
    """A server behind the gateway failed."""

    code = "upstream"


class UnreachableError(UpstreamError):
    """No connection to the server could be made."""

    code = "unreachable"
    retryable = True


class ConnectionLostError(UnreachableError):
    """The connection ended before the answer came."""

    code = "connection_lost"

    def __init__(
        self, failed: str, *, sent: bool, expired: bool = False, allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.retryable = not sent
        self.sent = sent
        """Whether the request may have reached the server, so that the call may have run."""
        self.expired = expired
        """Whether the server said that the session is unknown; it did not run the request then."""


class ServerDownError(UnreachableError):
    """The server is down and is being retried in the background; nothing was sent."""

    code = "server_down"


class TimedOutError(UpstreamError):
    """The server did not answer before the deadline; whether the call took effect is unknown."""

    code = "timed_out"


class InvalidAnswerError(UpstreamError):
    """The server answered with something that the protocol does not allow."""

    code = "invalid_answer"


class CannotAskError(UpstreamError):
    """The server asks the user or the model, and this client cannot answer."""

    code = "cannot_ask"


class LoginNeededError(UpstreamError):
    """The server wants a login of whoever calls, and there is none, or none any more."""

    code = "login_needed"

    def __init__(
        self, failed: str, *, server: str, url: str = "", allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.server = server
        """The server."""
        self.url = url
        """Where the person logs in, with a browser; empty where there is no such page."""


class RpcError(UpstreamError):
    """The server answered with a JSON-RPC error, which travels to the client unchanged."""

    code = "rpc"

    def __init__(self, rpc_code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        """The `code` member of the JSON-RPC error."""
        self.message = message
        """The `message` member."""
        self.data = data
        """The `data` member; None when there was none."""


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
        """What is wrong, for programs: `refused`, `unknown_host`, `authentication`, `timeout`."""


class StatementError(ToolgateError):
    """A statement is not run: it may change something, or the database does not understand it."""

    code = "statement"


class ModelError(ToolgateError):
    """A chat model did not answer as it should."""

    code = "model"


class ModelAuthError(ModelError):
    """The service of a chat model does not accept its key."""

    code = "model_auth"


class ModelRateError(ModelError):
    """The service of a chat model takes no more requests for now."""

    code = "model_rate"
    retryable = True

    def __init__(
        self, failed: str, *, wait_s: float = 0.0, allowed: str = "", hint: str = ""
    ) -> None:
        super().__init__(failed, allowed=allowed, hint=hint)
        self.wait_s = wait_s
        """Seconds until it is worth trying again, as the service said; 0: it did not."""


class ModelTimeoutError(ModelError):
    """A chat model took too long."""

    code = "model_timeout"
    retryable = True


class ContextTooLongError(ModelError):
    """The conversation is longer than the chat model takes."""

    code = "context_too_long"


class ModelRequestError(ModelError):
    """The service of a chat model refuses a request as it is."""

    code = "model_request"


class ModelUnavailableError(ModelError):
    """A chat model cannot be reached, broke off, or answered what nobody can read."""

    code = "model_unavailable"
    retryable = True


class UnknownModelError(ModelError):
    """No chat model has this name, or none is configured."""

    code = "unknown_model"


class DocumentError(ToolgateError):
    """A file cannot be taken in as a document: empty, broken, encrypted, too large, unknown."""

    code = "document"


class ProgramError(ToolgateError):
    """A program of a model cannot be run, failed, or used more than it may."""

    code = "program"

    is_waiting: bool = False
    """Whether it goes on once a person has approved its calls."""

    waiting: Mapping[str, Any] = MappingProxyType({})
    """What it waits for: its `id`, and `calls` with `approval_id`, `function`, `arguments`, `text`.
    """


class ThreadBusyError(ToolgateError):
    """Another turn of the thread runs, and the thread takes no second one."""

    code = "thread_busy"
    retryable = True
