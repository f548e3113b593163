"""The thread of a request, for clients that can or cannot set our header."""

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import unquote

from toolgate.errors import ArgumentError
from toolgate.models.llm import Message
from toolgate.server.asgi.parsing.headers import header
from toolgate.server.asgi.parsing.messages import Scope
from toolgate.settings import ChatSettings
from toolgate.types import Json, json_object

_HEADER = "X-Toolgate-Thread"
_METADATA = "metadata."
_MOST_ENCODED = 600
"""Largest number of characters in the header, percent signs included; chosen."""
_MOST_CHARS = 200
"""Largest number of characters in a name; chosen."""
_NO_THREAD = re.compile(r"new|\{\{.*\}\}")
"""LibreChat's id of a conversation that has none yet, and placeholders that a client sends as they
are because it does not fill them in. All conversations of a caller would share that thread."""
_ABOUT_CONVERSATION = re.compile(
    r"### Task:\n.*<chat_history>"
    r"|Provide a concise, 5-word-or-less title for the conversation"
    r"|Analyze this conversation and provide:",
    re.DOTALL,
)
"""How the default texts begin with which Open WebUI asks for titles, tags, follow-up questions and
search queries, and LibreChat for titles, in requests that name the conversation."""


def thread_of_request(scope: Scope, body: Json, settings: ChatSettings) -> str | None:
    """Return the thread name of a request; None if it names none.

    The header `X-Toolgate-Thread` has priority over `chat.thread_fields`, which are tried in
    order. Empty values and placeholders are skipped.

    Raises:
        ArgumentError: The value is not a valid name.
    """
    if (own := header(scope, _HEADER.lower().encode())) is not None and own:
        return _checked(unquote(_short(own, _HEADER)), f"The header {_HEADER}")
    metadata = json_object(body.get("metadata"))
    for name in settings.thread_fields:
        if name.startswith(_METADATA):
            value: object = metadata.get(name.removeprefix(_METADATA))
            where = repr(name)
        else:
            text = header(scope, name.lower().encode())
            value = unquote(_short(text, name)) if text else None
            where = f"The header {name}"
        if value is None or value == "" or (isinstance(value, str) and _NO_THREAD.fullmatch(value)):
            continue
        return _checked(value, where)
    return None


def names_thread_itself(scope: Scope) -> bool:
    """Whether a request names its thread by our own header."""
    return bool(header(scope, _HEADER.lower().encode()))


def is_about_conversation(messages: Sequence[Message]) -> bool:
    """Whether a client asks something about a conversation, such as a title, instead of going on.

    Known by the client's default texts, since nothing else tells such requests apart.
    """
    asked = [message for message in messages if message.role == "user"]
    return len(asked) == 1 and _ABOUT_CONVERSATION.match(asked[0].text.lstrip()) is not None


def thread_from_user(user: object, messages: Sequence[Message]) -> str | None:
    """Return a name made of the user and the first message; None without either.

    Two conversations of a user that begin with the same message share a thread.
    """
    first = next((message.text for message in messages if message.role == "user"), "")
    if not isinstance(user, str) or not user or not first:
        return None
    digest = hashlib.sha256(f"{len(user)}:{user}{first}".encode("utf-8", "surrogatepass"))
    return f"user-{digest.hexdigest()[:32]}"


def _short(text: str, name: str) -> str:
    if len(text) > _MOST_ENCODED:
        raise ArgumentError(
            f"The header {name} has {len(text):,} characters.",
            allowed=f"Allowed: 1 to {_MOST_ENCODED}.",
        )
    return text


def _checked(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > _MOST_CHARS:
        raise ArgumentError(
            f"{where} is not a name for a thread.",
            allowed=f"Allowed: texts of 1 to {_MOST_CHARS} characters.",
        )
    return value
