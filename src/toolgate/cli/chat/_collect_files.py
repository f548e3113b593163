"""Find and read the files, folders and URLs that `toolgate docs add` imports."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

import anyio
from anyio import to_thread

from toolgate.documents import ConvertedDocument, DocumentConverter, is_supported
from toolgate.errors import DocumentError, ToolgateError
from toolgate.settings import Settings, expand_home, proxies

_REDIRECTS: Final = 5
"""Redirects to follow (chosen)."""

_FETCH_TIMEOUT_S: Final = 120.0
"""Seconds for a URL with all its redirects (chosen)."""

_OK: Final = 200
""""OK" of RFC 9110, section 15.3.1."""
_MOVED: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file or a URL."""

    origin: str
    """The argument that it comes from: absolute path of a folder or file, or URL."""

    source: str
    """Its name in the collection: path with the folder name, file name, or URL."""

    path: Path | None = None
    """Path of the file; None for a URL."""


@dataclass(kw_only=True)
class CollectedFiles:
    """The files of several arguments."""

    items: list[SourceFile] = field(default_factory=list[SourceFile])
    """Files and URLs to import."""

    folders: list[str] = field(default_factory=list[str])
    """Absolute paths of the folders among the arguments; documents deleted there are removed."""

    skipped: list[str] = field(default_factory=list[str])
    """Files in folders that are not documents."""

    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Arguments that cannot be used, each with the reason."""


@dataclass(frozen=True, kw_only=True)
class FileContent:
    """Content of a file or URL."""

    sha256: str
    """SHA-256 of the content, in hex."""

    size_bytes: int
    """Size of the content."""

    data: bytes
    """The content."""

    name: str
    """File name, whose suffix determines the format."""

    media_type: str = ""
    """Content type of the response; empty for a file."""


def is_address(text: str) -> bool:
    """Whether an argument is a URL."""
    return urlsplit(text).scheme in {"http", "https"}


def collect_files(arguments: Sequence[str]) -> CollectedFiles:
    """Return all files and URLs of the arguments, without duplicates."""
    collected = CollectedFiles()
    seen: set[tuple[str, str]] = set()
    for text in arguments:
        if is_address(text):
            items: Iterator[SourceFile] = iter([SourceFile(origin=text, source=text)])
        else:
            path = Path(expand_home(text))
            if path.is_dir():
                folder = path.resolve()
                collected.folders.append(str(folder))
                items = _walk(folder, collected.skipped)
            elif path.exists():
                items = iter([SourceFile(origin=str(path.resolve()), source=path.name, path=path)])
            else:
                collected.problems.append((text, f"There is no file or folder {text!r}."))
                continue
        for item in items:
            if (item.origin, item.source) not in seen:
                seen.add((item.origin, item.source))
                collected.items.append(item)
    return collected


def _walk(folder: Path, skipped: list[str]) -> Iterator[SourceFile]:
    """Find the documents in a folder, except hidden ones; links to folders are not followed."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(where, name)
            if name.startswith(".") or not path.is_file():
                continue
            source = f"{folder.name}/{path.relative_to(folder).as_posix()}"
            if is_supported(name):
                yield SourceFile(origin=str(folder), source=source, path=path)
            else:
                skipped.append(source)


async def read_content(item: SourceFile, settings: Settings) -> FileContent:
    """Read a file or URL.

    Raises:
        DocumentError: It is empty, too large or unreadable.
        UnreachableError: The URL does not respond or is not allowed.
    """
    max_bytes = settings.documents.max_file_mb * 2**20
    if item.path is not None:
        data = await to_thread.run_sync(_read_file, item, item.path, max_bytes)
        name, media_type = item.path.name, ""
    else:
        data, name, media_type = await _fetch(item.source, settings, max_bytes)
    if not data:
        raise DocumentError(f"{item.source} is empty.", hint="Leave it out.")
    digest = await to_thread.run_sync(lambda: hashlib.sha256(data).hexdigest())
    return FileContent(
        sha256=digest, size_bytes=len(data), data=data, name=name, media_type=media_type
    )


async def to_text(
    item: SourceFile, material: FileContent, converter: DocumentConverter
) -> ConvertedDocument:
    """Convert a document to text.

    Raises:
        DocumentError: The format is not supported, or the conversion exceeds a limit.
        MissingExtraError: A library for it is not installed.
    """
    name = item.source if is_supported(item.source) else material.name
    return await converter.convert(name, material.data, media_type=material.media_type)


def _read_file(item: SourceFile, path: Path, max_bytes: int) -> bytes:
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise _too_large(item.source, size, max_bytes)
        return path.read_bytes()
    except OSError as error:
        raise DocumentError(
            f"{item.source} cannot be read: {error.strerror or error}.",
            hint="Check its permissions.",
        ) from error


def _too_large(source: str, size: int, max_bytes: int) -> DocumentError:
    return DocumentError(
        f"{source} has {size / 2**20:,.0f} MB.",
        allowed=f"Allowed: {max_bytes // 2**20} MB (setting documents.max_file_mb).",
        hint="Split it, or raise the limit.",
    )


async def _fetch(url: str, settings: Settings, max_bytes: int) -> tuple[bytes, str, str]:
    """Download a URL; return its content, name and media type."""
    module: Any = import_module("toolgate.security.outbound")
    outbound: Any = module.Outbound(settings.outbound, proxies())
    try:
        with anyio.fail_after(_FETCH_TIMEOUT_S):
            return await _follow_redirects(outbound, module, url, max_bytes)
    except TimeoutError as error:
        raise DocumentError(f"{url} takes longer than {_FETCH_TIMEOUT_S:g} s.") from error
    except ToolgateError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DocumentError(f"{url} cannot be reached: {reason}.", hint="Check the URL.") from error
    finally:
        await outbound.aclose()


async def _follow_redirects(
    outbound: Any, module: Any, url: str, max_bytes: int
) -> tuple[bytes, str, str]:
    """Follow redirects, but never to a more private network than that of the first URL."""
    reach, at = module.CONFIGURED, url
    headers = {"Accept": "text/markdown, text/html;q=0.9, */*;q=0.5"}
    for _ in range(_REDIRECTS + 1):
        async with outbound.opened(
            "GET", at, reach=reach, headers=headers, data=None, options=module.ConnectionOptions()
        ) as response:
            if response.status in _MOVED and "Location" in response.headers:
                at = urljoin(at, response.headers["Location"])
                if not is_address(at):
                    raise DocumentError(
                        f"{url} redirects to {at[:200]!r}, which is not a web page."
                    )
                reach = await outbound.reach_from(url)
                continue
            if response.status != _OK:
                raise DocumentError(
                    f"{url} responds with status {response.status}.", hint="Check the URL."
                )
            data = bytearray()
            async for block in response.content.iter_chunked(2**16):
                data += block
                if len(data) > max_bytes:
                    raise _too_large(url, len(data), max_bytes)
            name = unquote(urlsplit(at).path).rpartition("/")[2] or "page"
            return bytes(data), name, response.headers.get("Content-Type", "")
    raise DocumentError(f"{url} redirects more than {_REDIRECTS} times.")
