"""Who a request comes from, as far as a door can tell."""

import re
from contextvars import ContextVar

from toolgate.ids import new_id
from toolgate.types import Caller

__all__ = ["RELAYED", "caller_of", "request_id_of"]

RELAYED: ContextVar[bool] = ContextVar("relayed", default=False)
"""Whether it came through a `toolgate stdio` of the same user, which mirrors no parameter."""

_GIVEN_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_MAX_WORD = 200


def caller_of(client: str, *, thread: str | None = None, session: str | None = None) -> Caller:
    """The caller of a request that needs no credentials.

    Args:
        client: Name of the client program, as it says.
        thread: Value of `X-Toolgate-Thread`.
        session: Id of its session in the handshake era.
    """
    return Caller(client=client, conversation=(thread or session or client)[:_MAX_WORD])


def request_id_of(given: str | None) -> str:
    """The id that everything about a request carries: the client's own if it can stand in a log."""
    return given if given and _GIVEN_ID.fullmatch(given) else new_id()
