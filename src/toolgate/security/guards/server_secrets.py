"""Masks the secrets of a server's own configuration in what the server writes.

A server that fails tends to show the address it called, with the key in it. These secrets belong
to the administrator, so no caller may read them, whether guards are configured or not.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from toolgate.errors import InvalidAnswerError, RpcError, UnreachableError
from toolgate.security.guards.secret_detection import secret_scanner
from toolgate.types import Json

_SECRET_SETTING: Final = re.compile(r"(?i)token|key|secret|passw|pwd|credential|auth|cookie|dsn")
"""Names of variables, headers, flags and parameters whose values are secrets."""

# Shorter values would mask ordinary words. Chosen.
_MIN_CHARS = 6

_PASSWORD_IN_URL: Final = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
"""`postgresql://user:password@host`, wherever it is (RFC 3986 section 3.2.1)."""

_ASSIGNED: Final = re.compile(r"-{0,2}([\w.-]+)=(.+)", re.DOTALL)
"""An argument with its value: `--api-key=VALUE`, `API_KEY=VALUE`."""

_MASKED: Final = "[secret masked]"
# Nesting levels of a value that are searched; Python's own recursion limit is 1,000. Chosen.
_DEEPEST = 200


class ServerSecrets:
    """The secrets of a server: in its options, and those from the encrypted store."""

    def __init__(self, options: Mapping[str, object], stored: Iterable[str] = ()) -> None:
        """Collect the secrets.

        Args:
            options: The options of the server, whose names tell which values are secrets.
            stored: Values that are secrets, wherever they are.
        """
        # A server tends to show the token without `Bearer`, and a parameter of a URL decoded.
        forms = (form for value in stored for form in (value, value.split(" ")[-1], unquote(value)))
        secrets = {value for value in (*_secrets(options), *forms) if len(value) >= _MIN_CHARS}
        # Longest first: a secret may contain another.
        self.values = tuple(sorted(secrets, key=lambda value: (-len(value), value)))
        """All of them. WARNING: never show them."""

    def mask(self, text: str) -> str:
        """Mask them in a text, and all that looks like a secret."""
        return secret_scanner().mask(self._mask_known(text), Counter())

    def mask_error(self, error: RpcError | InvalidAnswerError) -> RpcError | InvalidAnswerError:
        """Mask them in an error that quotes the server; the same object if there are none."""
        failed, known = error.failed, self._mask_known(error.failed)
        if isinstance(error, RpcError):
            data = self._mask_json(error.data)
            same = known == failed and data is error.data
            return error if same else RpcError(error.rpc_code, known, data)
        return error if known == failed else InvalidAnswerError(known, hint=error.hint)

    def mask_failure(self, error: UnreachableError) -> None:
        """Mask them in an error of the connection, which tends to show the address."""
        for name in ("failed", "allowed", "hint", "detail"):
            setattr(error, name, self._mask_known(getattr(error, name)))
        error.args = (self._mask_known(str(error)),)

    def mask_result(self, result: Json) -> Json:
        """Mask them in the result of a call that failed; other results stay as they are."""
        return self._mask_json(result) if result.get("isError") is True else result

    def _mask_known(self, text: str) -> str:
        for value in self.values:
            if value in text:
                text = text.replace(value, _MASKED)
        return text

    def _mask_json(self, value: Any, depth: int = 0) -> Any:
        if not self.values or depth > _DEEPEST:
            return value
        if isinstance(value, str):
            return self._mask_known(value)
        if isinstance(value, dict):
            table = cast("Json", value)
            masked = {
                self._mask_known(key): self._mask_json(inner, depth + 1)
                for key, inner in table.items()
            }
            pairs = zip(masked.items(), table.items(), strict=False)
            same = len(masked) == len(table) and all(
                new is old and inner is outer for (new, inner), (old, outer) in pairs
            )
            return table if same else masked
        if isinstance(value, list):
            items = cast("list[Any]", value)
            masked_items = [self._mask_json(inner, depth + 1) for inner in items]
            same = all(new is old for new, old in zip(masked_items, items, strict=True))
            return items if same else masked_items
        return value


def _secrets(options: Mapping[str, object]) -> Iterator[str]:
    """Yield the secrets in variables, headers, arguments and `url`."""
    for table in ("env", "headers"):
        pairs = options.get(table)
        if isinstance(pairs, Mapping):
            for name, value in cast("Mapping[str, object]", pairs).items():
                if isinstance(value, str):
                    yield from _secrets_in(name, value)
    if isinstance(arguments := options.get("args"), (list, tuple)):
        before = ""
        for argument in cast("list[object]", arguments):
            text = argument if isinstance(argument, str) else ""
            assigned = _ASSIGNED.fullmatch(text)
            flag = before if before.startswith("-") and "=" not in before else ""
            if assigned is not None:
                yield from _secrets_in(assigned[1], assigned[2])
            elif not text.startswith("-"):
                yield from _secrets_in(flag, text)
            before = text
    if isinstance(url := options.get("url"), str):
        yield from _secrets_in("", url)
        for name, value in parse_qsl(urlsplit(url).query):
            yield from _secrets_in(name, value)


def _secrets_in(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in a named value: all of it, or the password of a URL."""
    for password in _PASSWORD_IN_URL.findall(value):
        yield password
        yield unquote(password)
    if _SECRET_SETTING.search(name):
        yield value
        yield value.rpartition(" ")[2]  # also without `Bearer`
