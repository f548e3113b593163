"""Values in a request: arguments for a tool, which do not say which tool is needed.

A deployment called `flight-search` has nothing to do with flights, and nobody who reads
`/srv/weather/2024.csv` wants a forecast. Such names are removed before a request is searched:
URLs, e-mail addresses, paths, quoted strings, and joined words (`flight-search`, `user:42`,
`parseDate`) that no tool has. Of a path, its kind of file remains.
"""

import re
from typing import Final

from toolgate.search.lexical.state import LexicalState
from toolgate.search.tokenizer import IGNORED, fold, term_of, words

_MAY_HAVE = re.compile(r"""["“„«`'/\\@#:._$\d-]|[a-z][A-Z]""")
"""Matches nothing in a text without values, so that most requests need only this check."""
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]{0,20}://\S+|\bwww\.\S+"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+",
    re.IGNORECASE,
)
"""URLs and e-mail addresses."""
_HOST = re.compile(r"(?:.*?://|.*@)?([^/:?#\s]*)")
_PATH = re.compile(
    r"(?<![^\s(\"'`=])(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.@*{}+-]+(?:[/\\][\w.@*{}+-]*)*"
)
"""Paths with a recognizable start."""
_SAYS_FILE = re.compile(r"\bfiles?\b", re.IGNORECASE)
_PLACE: Final = "filesystem"
"""Replaces a path: tools that take one have this word in their own or their server's texts."""
_KINDS: Final = {
    ending: kind
    for kind, endings in {
        "text": "txt log md rst",
        "code": "py js ts jsx tsx java go rs rb php c h cpp cs sh",
        "excel": "xlsx xls xlsm ods",
        "word document": "docx doc odt",
        "powerpoint presentation": "pptx ppt odp",
        "image": "png jpg jpeg gif webp bmp svg tif tiff",
        "audio": "mp3 wav ogg flac m4a",
        "video": "mp4 mov avi mkv webm",
        "archive": "zip tar gz tgz",
        "sqlite database": "db sqlite",
        "notebook": "ipynb",
    }.items()
    for ending in endings.split()
}
"""What tools call files with some extensions; other extensions are words themselves (`csv`,
`pdf`)."""
_MEDIA: Final = frozenset({"image", "audio", "video"})
"""Kinds whose tools do not speak of a file system."""
_ENDING = re.compile(r"[\w*}]\.([a-z][a-z0-9]{1,3}|sqlite|parquet|ipynb)$", re.IGNORECASE)
"""Extension of a file name."""
_QUOTED = re.compile(
    r'"[^"\n]{1,500}"|`[^`\n]{1,500}`|“[^”\n]{1,500}”|„[^“”\n]{1,500}[“”]|«[^»\n]{1,500}»'
    r"|(?<!\w)'[^'\n]{1,500}'(?!\w)"
)
_WORD = re.compile(r"[^\s\"'`“”„«»()\[\]{},;!?<>]+")
_JOINTS = re.compile(r"(?<=\w)[/\\:.]+(?=\w)")
_CAMEL = re.compile(r"^[a-z]{2,}[A-Z]|[A-Z][a-z]+[A-Z][a-z]+[A-Z][a-z]")
"""Matches `parseDate` and `MovieRentalService`, but not products such as `YouTube` and `iPhone`."""
_SHORT_CODE = 4
"""Most characters of letters and digits that are a word (`mp4`, `S3`) rather than an ID; chosen."""
_SHORT_PART = 3
"""Most letters of a part that makes a joined word an ordinary one (`co-author`, `sign-up`);
chosen."""
_LEAST_WORDS = 2
"""Fewest informative words that must remain; otherwise the request is searched unchanged;
chosen."""


def without_values(state: LexicalState, text: str) -> str:
    """Remove the values of a request; return it unchanged if hardly anything else is in it.

    The parts of a URL's host that are names of servers stay, as does the extension of a file
    name.
    """
    if not _MAY_HAVE.search(text):
        return text
    left = _ADDRESS.sub(lambda address: _host(state, address.group()), text)
    # Repeating the word, or the kind of several files, would outweigh the rest of the request.
    noun = "" if _SAYS_FILE.search(text) else " file"
    kinds: set[str] = set()
    left = _QUOTED.sub(lambda quoted: _of_quoted(state, quoted.group(), noun, kinds), left)
    left = _PATH.sub(lambda path: _file(path.group(), noun, kinds), left)
    left = _WORD.sub(lambda word: _plain(state, word.group()), left)
    telling = sum(word.lower() not in IGNORED for word in words(left))
    return left if telling >= _LEAST_WORDS else text


def _host(state: LexicalState, address: str) -> str:
    """Return the parts of an address that are also names of servers."""
    host = _HOST.match(address)
    parts = host.group(1).split(".")[:-1] if host else []
    return f" {' '.join(part for part in parts if fold(part) in state.server_names)} "


def _file(path: str, noun: str, kinds: set[str]) -> str:
    """Return the kind of file of a path, with the punctuation at its end; add it to `kinds`.

    A kind that is already among them is left out.
    """
    plain = path.rstrip(".:")
    place, kind = f"{_PLACE} ", ""
    if ending := _ENDING.search(plain):
        written = ending.group(1).lower()
        kind = _KINDS.get(written, written)
        place = "" if kind in _MEDIA else place
        kind += noun
    if kind in kinds:
        return f" {path[len(plain) :]} "
    kinds.add(kind)
    return f" {place}{kind}{path[len(plain) :]} "


def _of_quoted(state: LexicalState, quoted: str, noun: str, kinds: set[str]) -> str:
    """Return a quoted string if it names a tool, and the kind of file of a quoted path."""
    text = quoted[1:-1]
    if state.slots_named(fold(text)):
        return quoted
    return _file(text, noun, kinds) if _PATH.fullmatch(text) else " "


def _plain(state: LexicalState, word: str) -> str:
    """Return a word, or only its known extension if it is a value."""
    plain = word.rstrip(".:")
    if not _is_value(state, plain):
        return word
    ending = _ENDING.search(plain)
    kept = ending.group(1) if ending and _is_known(state, ending.group(1)) else ""
    return kept + word[len(plain) :]


def _is_value(state: LexicalState, word: str) -> bool:
    """Return whether a word looks like a custom name, and no tool has it."""
    if word.isalpha() and not _CAMEL.search(word):
        return False
    if not any(map(str.isalpha, word)) or state.slots_named(fold(word)):
        return False
    if word[0] in "#@:$":
        return True
    parts = _JOINTS.split(word)
    if len(parts) > 1:
        # `read/write` are two words, and `U.S.` is not a value; `acme/shop` is a name.
        is_choice = "/" in word and all(
            part.isalpha() and part.islower() and _is_known(state, part) for part in parts
        )
        return not is_choice and max(map(len, parts)) > 1
    if _is_known(state, word):
        return False
    if "-" in word and "_" not in word:
        # `Wikipedia-Artikel` is an ordinary word.
        return not word[0].isupper() and not any(map(_is_ordinary, word.split("-")))
    if "_" in word or word.isalpha():
        return True
    return len(word) > _SHORT_CODE and any(map(str.isdigit, word))


def _is_ordinary(part: str) -> bool:
    """Return whether a part of a hyphenated word is typical of ordinary words, not of names."""
    return part.isdigit() or (part.isalpha() and len(part) <= _SHORT_PART)


def _is_known(state: LexicalState, word: str) -> bool:
    """Return whether a tool has the entire word."""
    index = state.index
    number = state.vocabulary.get(term_of(word), -1)
    return index is not None and 0 <= number < len(index.df) and bool(index.df[number])
