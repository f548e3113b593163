"""The paths that a server may read in a text, however they are spelled.

A guard compares text, but a server opens files: `//etc/./passwd`, `/tmp/../etc/passwd`,
`file:///%65tc/passwd`, `/proc/self/root/etc/passwd` and a symbolic link are all `/etc/passwd`.
It is unknown which spellings a server understands, so all of them count.
"""

import os.path
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import unquote

_ALIKE: Final = str.maketrans("\u2215\u29f8\u2216\u29f9", "//\\\\")
"""Signs that Windows reads as slashes or backslashes, apart from those that NFKC covers."""

_OVERLONG: Final = re.compile(r"%c0%(?:af|ae)|%c1%9c|%e0%80%(?:af|ae)", re.IGNORECASE)
"""Invalid UTF-8 for `/`, `.` and `\\`, which some decoders accept."""

_HINTS: Final = re.compile(r"[/\\~%\0\uff0f\u2215\u29f8\uff3c\ufe68\u2216\u29f9]|\.\.|^\s|\s$")
"""What makes a text readable in more than one way."""

_URI: Final = re.compile(r"file:(?://(?:localhost|127\.0\.0\.1|\[::1\])?(?=[/\\]))?", re.IGNORECASE)
_REMOTE_URI: Final = re.compile(r"file://[^/\\]+(?=[/\\])", re.IGNORECASE)
"""Many programs use the path of such a URI and ignore the host."""
_OTHER_URI: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_WRAPPER: Final = re.compile(
    r"[a-z][a-z0-9+.-]*(?:[:_](?=(?:[a-z][a-z0-9+.-]*[:_])*file:)|:(?=///))", re.IGNORECASE
)
"""The prefix in `jar:file:///etc`, `local_file:/etc` and `netdoc:///etc`: schemes by which Java
and Python libraries open files."""
_PARAMETERS: Final = re.compile(r";[^/\\]*")
"""Parameters of a segment, which Java servers remove: `/tmp/..;x/etc`, `/;/etc`, `/etc;x/`."""
_HOME: Final = re.compile(r"~[^/]*")

_ALIAS: Final = re.compile(
    r"/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/(?:root|cwd|fd/\d+)|/dev/fd/\d+"
)
"""Kernel links to a folder of a process, any of which may be the root."""

_KERNEL_LINKS: Final = {
    ("dev", "fd"): ["proc", "self", "fd"],
    ("proc", "net"): ["proc", "self", "net"],
    ("proc", "thread-self"): ["proc", "self", "task", "1"],
}
"""Links that every Linux system has to folders of a process: `/dev/fd/../root` is its root."""

_ALIAS_PREFIX: Final = re.compile(rf"(?:{_ALIAS.pattern})(?=/|$)")
_ALIAS_PARTS: Final = 6
"""Path segments that may be another name of the root, such as `/proc/self/root`."""

_LITERAL: Final = re.compile(r"\^?((?:/(?:[A-Za-z0-9_~@,:=-]|\\[./-]|\.(?![*+?{]))+)+)(?=/|\$|$)")
"""A path at the start of a regular expression."""

_MAX_CHARS: Final = 8_192
"""Longer texts are decoded in one order only, and are paths only if decoding makes them short."""

_MAX_PATH_CHARS: Final = 4_096
"""Longer paths do not exist; a server may itself shorten a longer spelling."""

_MAX_NAME_CHARS: Final = 255
"""Characters of a file name: NAME_MAX of Linux."""

_MAX_SPELLINGS: Final = 128
"""Readings of a path; chosen: limits the time; a path with more is refused."""


class TooManyReadingsError(Exception):
    """A text is encoded so often that checking all readings would take too long."""


class PathReadings:
    """Reads texts as paths of one server."""

    def __init__(self, expressions: Iterable[str], folder: str | None) -> None:
        """Prepare for expressions.

        Args:
            expressions: Regular expressions that paths are matched against. Those that begin
                with a path that is a symbolic link also match its target.
            folder: The working folder of a server that shares the gateway's file system; None:
                it does not share it, and symbolic links are not followed.
        """
        self._folder = folder
        self._linked: tuple[tuple[str, str], ...] = ()
        if folder is not None:
            literals = {
                re.sub(r"\\(.)", r"\1", match[1])
                for expression in expressions
                if (match := _LITERAL.match(expression))
            }
            resolved = {literal: _resolved(literal) for literal in sorted(literals)}
            self._linked = tuple(
                (real, literal) for literal, real in resolved.items() if real != literal
            )

    def all(self, text: str, *, keep_relative: bool = False) -> list[str]:
        """Return every path that a text may stand for, with and without a slash at its end.

        Args:
            text: The text as sent.
            keep_relative: Whether relative paths within the server's folder stay relative, so
                that an expression for any part of a path does not match the folder itself.

        Raises:
            TooManyReadingsError: There are too many readings.
        """
        if not self._may_differ(text):
            return []
        paths: dict[str, None] = {}
        for spelling in _spellings(
            text.strip(),
            (
                *_DECODERS,
                _without_wrapper,
                _without_uri,
                _without_host,
                _without_query,
                _without_parameters,
            ),
        ):
            normal = self._normal(spelling)
            is_home = spelling.startswith("~")
            plain = dict.fromkeys(
                (*normal, *(_from_root(path, has_left=is_home) for path in normal))
            )
            paths |= plain
            for path in (*plain, spelling):  # also as spelled: a link before `..` leads elsewhere
                paths |= dict.fromkeys(self._on_disk(path, keep_relative=keep_relative))
        folders = [f"{path}/" for path in paths if path and not path.endswith("/")]
        return [*paths, *folders]

    def strict(self, text: str) -> list[str]:
        """Return other paths of a text once decoded and resolved; a URI stays a URI.

        For rules that say what is allowed, which all of these have to match.

        Raises:
            TooManyReadingsError: There are too many readings.
        """
        if not self._may_differ(text):
            return []
        prefix = match[0] if (match := _URI.match(text)) else ""
        readings: dict[str, None] = {}
        for spelling in _spellings(text[len(prefix) :], _DECODERS):
            is_folder = spelling.endswith("/")
            normal = self._normal(spelling)
            for reading in (*normal, *map(self._resolved_as_written, (*normal, spelling))):
                slash = "/" if is_folder and not reading.endswith("/") else ""
                readings[prefix + reading + slash] = None
        if _OTHER_URI.match(text):  # `//` and `..` have another meaning there
            return [reading for reading in readings if reading.startswith("../")]
        return [
            reading
            for reading in readings
            if reading != text and len(reading) <= _MAX_PATH_CHARS + len(prefix)
        ]

    def _may_differ(self, text: str) -> bool:
        if _HINTS.search(text):
            return True
        # A plain name can differ only if it is a link in the server's folder.
        if self._folder is None or not 0 < len(text) <= _MAX_NAME_CHARS:
            return False
        return os.path.lexists(posixpath.join(self._folder, text))

    def _normal(self, spelling: str) -> set[str]:
        """Return the normalized path, with kernel links unchanged and followed."""
        # `/proc/self/cwd` is the folder of the server; if that is unknown, it may be the root.
        folders = {"/"} if self._folder is None else {"/", self._folder}
        paths = {_lexical(spelling), *(_physical(spelling, folder) for folder in folders)}
        return {path for path in paths if len(path) <= _MAX_PATH_CHARS}

    def _on_disk(self, path: str, *, keep_relative: bool) -> Iterator[str]:
        """Yield where a path leads on this machine, under the names that expressions use."""
        if self._folder is None or "\0" in path or len(path) > _MAX_PATH_CHARS:
            return
        if keep_relative and not path.startswith(("/", "~")):
            inside = self._resolved_as_written(path)
            if not inside.startswith("/"):
                yield inside
                return
        # Expressions may write the home folder as `~` or in full: both are compared.
        home = _resolved("~")
        absolute = posixpath.join(self._folder, _without_home(path))
        for found in {_lexical(absolute), _resolved(absolute)}:
            yield from self._names(found)
            if _is_in(found, home):
                yield "~" + found[len(home) :]

    def _resolved_as_written(self, path: str) -> str:
        """Resolve a path; relative if it stays in its folder, else absolute."""
        normal = _lexical(path)
        if self._folder is None or "\0" in path or len(path) > _MAX_PATH_CHARS:
            return normal
        real = _resolved(posixpath.join(self._folder, _without_home(path)))
        if path.startswith("/"):
            names = self._names(real)
            return normal if normal in names else names[-1]
        name = match[0] if (match := _HOME.match(path)) else ""
        folder = _resolved(name or self._folder)
        if not _is_in(real, folder):
            return real
        inside = real[len(folder.rstrip("/")) :]
        return name + inside if name else inside.lstrip("/") or "."

    def _names(self, path: str) -> list[str]:
        """Return a path, also under the links that expressions use for it."""
        return [
            path,
            *(literal + path[len(real) :] for real, literal in self._linked if _is_in(path, real)),
        ]


def _spellings(text: str, steps: Iterable[Callable[[str], str]]) -> list[str]:
    """Return a text and all results of applying steps in any order."""
    steps = tuple(steps)
    # Each spelling is a copy, so steps are applied to a long text in the usual order only.
    if len(text) > _MAX_CHARS:
        decoded = [text]
        for step in steps * 2:
            decoded.append(step(decoded[-1]))
        return list(dict.fromkeys(decoded))
    spellings = {text: None}
    waiting = [text]
    # The list grows during iteration: every step is applied to every result, in any order.
    for item in waiting:
        for step in steps:
            changed = step(item)
            if changed not in spellings:
                # Stopping here and letting the text pass would bypass the guard.
                if len(spellings) == _MAX_SPELLINGS:
                    raise TooManyReadingsError
                spellings[changed] = None
                waiting.append(changed)
    return list(spellings)


def _without_host(text: str) -> str:
    match = _REMOTE_URI.match(text)
    return text[match.end() :] if match else text


def _without_uri(text: str) -> str:
    match = _URI.match(text)
    return text[match.end() :] if match else text


def _without_wrapper(text: str) -> str:
    match = _WRAPPER.match(text)
    return text[match.end() :] if match and not _URI.match(text) else text


def _without_parameters(text: str) -> str:
    return _PARAMETERS.sub("", text)


def _without_query(text: str) -> str:
    return re.split(r"[?#]", text, maxsplit=1)[0] if _URI.match(text) else text


def _without_rest(text: str) -> str:
    """Cut a text at the first NUL, as programs in C do."""
    return text.partition("\0")[0]


def _without_alias(text: str) -> str:
    """Remove a kernel link to the root from the start, and change nothing else."""
    plain = re.sub(r"/(?:\.?/)+", "/", text)
    return plain[match.end() :] if (match := _ALIAS_PREFIX.match(plain)) else text


def _with_ascii_signs(text: str) -> str:
    """Replace what Windows, or a server that normalizes Unicode, reads as ASCII."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_ALIKE)
    return _OVERLONG.sub(lambda match: "." if match[0][-1] in "eE" else "/", plain)


def _with_slashes(text: str) -> str:
    return text.replace("\\", "/")


_DECODERS: Final[tuple[Callable[[str], str], ...]] = (
    _with_ascii_signs,
    unquote,
    _with_slashes,
    _without_alias,
    _without_rest,
    lambda text: text.replace("\0", ""),
)


def _lexical(path: str) -> str:
    """Remove empty parts, `.` and `..` from a path, ignoring links."""
    normal = posixpath.normpath(path) if path else ""
    # POSIX leaves two leading slashes to the system; Linux reads them as one.
    return normal[1:] if normal.startswith("//") else normal


def _physical(path: str, folder: str) -> str:
    """Remove the same, while kernel links to a folder of a process lead to `folder`."""
    # Kernel links can only be reached from the root.
    if not path.startswith("/"):
        return _lexical(path)
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
            if len(parts) == 2:
                parts = [*_KERNEL_LINKS.get((parts[0], parts[1]), parts)]
            if len(parts) <= _ALIAS_PARTS and _ALIAS.fullmatch("/" + "/".join(parts)):
                parts = [] if part == "root" else [step for step in folder.split("/") if step]
    return "/" + "/".join(parts)


def _from_root(path: str, *, has_left: bool) -> str:
    """Return a path that leaves its folder as if from the root: `../../etc` may be `/etc`.

    Args:
        path: A normalized path.
        has_left: Whether it begins with a home folder and has left it if it is not there any
            more: `~/../etc` is `/etc` where the home folder is `/root`.
    """
    rest = path
    while rest == ".." or rest.startswith("../"):
        rest = rest[3:]
    if rest == path and (not has_left or path.startswith(("~", "/"))):
        return path
    return f"/{rest}"


def _without_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - a text, and nothing raised without a home


def _resolved(path: str) -> str:
    """Return where a path leads on this machine; unchanged if a link in it cannot be read."""
    plain = _without_home(path)
    try:
        return _with_slashes(os.path.realpath(plain))
    except OSError:  # a process of another user, whose root the server cannot read either
        return _with_slashes(plain)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
