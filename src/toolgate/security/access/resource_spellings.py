"""The URIs that a server may read in one, which all have to be allowed.

A rule compares text, but `file:///pub/../secret`, `file:///%73ecret` and `FILE://localhost//secret`
may all be `file:///secret` to a server.
"""

import posixpath
import re
from typing import Final

_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//[^/?#\\]*)?([^?#]*)(.*)", re.DOTALL)
"""Scheme, authority, path and the rest (RFC 3986)."""

_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_DECODED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/\\%\0"
)
"""Characters without a meaning of their own in a URI, and those that are parts of a path."""

_SPELLED: Final = re.compile(r"%|\\|//|/\.|^[^:]*[A-Z][^:]*:|^file:|^[^:]*:\.|\0", re.IGNORECASE)
"""What a URI has that can be read in more than one way."""

_THIS_MACHINE: Final = frozenset({"", "//", "//localhost", "//127.0.0.1", "//[::1]"})

_MOST_ROUNDS: Final = 8
"""Levels of percent-encoding that are read (chosen: servers decode one or two)."""


def uri_readings(uri: str) -> tuple[str, ...]:
    """Return a URI and those that a server may read in it; empty if it is encoded too often."""
    if not _SPELLED.search(uri):
        return (uri,)
    decoded = [uri]
    while (plain := _ESCAPED.sub(_character, decoded[-1])) != decoded[-1]:
        if len(decoded) > _MOST_ROUNDS:
            return ()
        decoded.append(plain)
    readings = dict.fromkeys([uri, *decoded])
    # Each level: a server may decode once, twice or not at all before it resolves the path.
    for text in decoded:
        readings |= dict.fromkeys(_normal(text))
    return tuple(readings)


def _character(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code in _DECODED else match[0]


def _normal(text: str) -> list[str]:
    """Return a URI with its path resolved, as RFC 3986 and common servers do."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return []
    scheme, authority, path, rest = match[1].lower(), match[2] or "", match[3], match[4]
    # Programs in C end a text at a NUL.
    path = path.partition("\0")[0].replace("\\", "/")
    folder = "/" if path.endswith(("/", "/.", "/..")) else ""
    normal = posixpath.normpath(path) if path else ""
    normal = "/" + normal.lstrip("/") if path.startswith("/") else normal
    normal += "" if normal.endswith("/") else folder
    if scheme != "file":
        return [f"{scheme}:{authority}{normal}{rest}"]
    if not normal.startswith("/"):
        return []
    # Programs ignore query and fragment of a file; `file:/a` is `file:///a`.
    host = "//" if authority.lower() in _THIS_MACHINE else authority
    return [f"file:{host}{normal}{rest}", f"file:{host}{normal}"]
