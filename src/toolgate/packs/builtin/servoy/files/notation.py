r"""Parses and writes the notation of workspace files, byte-exact, in both dialects.

| | plain | JSON |
|---|---|---|
| around the whole | nothing | braces |
| keys | bare | quoted |
| between members | comma, line feed | comma, line feed, four spaces per level |

In both, a line break inside a text is a backslash and a real line feed, so even a file with
braces need not be valid JSON. Older files have a bare line feed or `\n`; all are read.
Deviations from the style of the writer are preserved: the order of keys, values that could have
been left out, unnecessary escapes, the end of the file.
"""

import re
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeAlias

Dialect: TypeAlias = Literal["plain", "json"]
"""`plain`: until about Servoy 2025.3. `json`: since 2025.9."""

LineBreak: TypeAlias = Literal["backslash", "escape", "bare"]
r"""Line breaks inside a text: backslash and line feed, `\n`, or a bare line feed."""

Value: TypeAlias = "Fields | Items | str | int | bool | None"

DEEPEST: Final = 200
"""Largest nesting depth of values; real forms reach about 12."""

MOST_BYTES: Final = 64_000_000
"""Bytes; no workspace file is larger. The largest medias.obj seen has 60,000 bytes."""


class NotationError(ValueError):
    """A text is not in the notation; the message has the line and the reason."""

    def __init__(self, reason: str, *, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason = reason
        self.line = line
        """Line number, from 1; 0 for the whole text."""


class VerbatimText(str):
    """A text or key whose spelling in the file differs from that of the writer."""

    __slots__ = ("raw",)

    raw: str

    def __new__(cls, value: str, raw: str) -> "VerbatimText":
        """Create the text `value`, spelt `raw`."""
        text = super().__new__(cls, value)
        text.raw = raw
        return text


class BareWord(str):
    """A value without quotes that is neither a plain number nor a keyword."""

    __slots__ = ()


class Fields(dict[str, Value]):
    """An object, with its members in the order of the file."""

    inline: bool = False
    """Whether it is on one line, as items of a relation are in the plain dialect."""

    gap: str | None = None
    """White space between the braces of an empty object."""


class Items(list[Value]):
    """An array."""

    inline: bool = False
    gap: str | None = None


@dataclass(frozen=True, kw_only=True)
class FileStyle:
    """Spelling of a file as a whole."""

    dialect: Dialect
    """The dialect."""

    line_break: LineBreak = "backslash"
    """Line breaks of new texts; others keep their own."""

    end_of_line: str = "\n"
    """Line ending; `\\r\\n` if every line of the file has it."""

    mark: bool = False
    """Whether it starts with a byte order mark."""

    lead: str = ""
    """White space before the first value."""

    tail: str = ""
    """White space after the last value; in some files a final line feed."""


@dataclass(frozen=True, kw_only=True)
class ServoyFile:
    """A parsed file."""

    root: Fields | Items
    """Its content."""

    style: FileStyle
    """Its spelling, for writing it again."""


def decode_file(content: bytes) -> ServoyFile:
    """Parse the bytes of a file.

    Raises:
        NotationError: They are not in the notation.
    """
    if len(content) > MOST_BYTES:
        raise NotationError(f"the file is larger than {MOST_BYTES:,} bytes")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise NotationError("this is not UTF-8 text", line=line) from error
    return parse_text(text)


def parse_text(text: str) -> ServoyFile:
    """Parse a text.

    Raises:
        NotationError: It is not in the notation: cut off, with merge conflict markers, or not
            text.
    """
    mark = text.startswith("\ufeff")
    text = text.removeprefix("\ufeff")
    _refuse_conflict(text)
    end_of_line = "\n"
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        end_of_line, text = "\r\n", text.replace("\r\n", "\n")
    return _NotationParser(text).read(mark=mark, end_of_line=end_of_line)


def format_file(read: ServoyFile) -> str:
    """Return the text of a parsed file."""
    style = read.style
    root = read.root
    writer = _NotationWriter(style)
    if isinstance(root, Items) or style.dialect == "json":
        body = writer.value(root, 1)
    else:
        body = writer.members(root, 0)
    text = f"{style.lead}{body}{style.tail}".replace("\n", style.end_of_line)
    return f"\ufeff{text}" if style.mark else text


def encode_file(read: ServoyFile) -> bytes:
    """Return the bytes of a parsed file."""
    return format_file(read).encode("utf-8", "surrogatepass")


def insert_member(fields: Fields, key: str, value: Value) -> None:
    """Replace a member, or insert it at its position in the order of the keys."""
    if key in fields:
        fields[key] = value
        return
    keys = sorted(fields)
    if keys != list(fields):  # not sorted: append the new one
        fields[key] = value
        return
    after = keys[bisect(keys, key) :]
    later = [(later_key, fields.pop(later_key)) for later_key in after]
    fields[key] = value
    fields.update(later)


def _refuse_conflict(text: str) -> None:
    start = re.search(r"^<{7}(?: .*)?$", text, re.MULTILINE)
    if start and re.compile(r"^>{7}(?: .*)?$", re.MULTILINE).search(text, start.end()):
        line = text.count("\n", 0, start.start()) + 1
        raise NotationError("there are marks of a merge conflict", line=line)


_SPACE: Final = re.compile(r"[ \t\r\n]*")
_TEXT: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|\'[^\'\\]*(?:\\.[^\'\\]*)*\'', re.DOTALL)
_WORD: Final = re.compile(r"[^,:\[\]{}\s\"']+")
_WORD_KEY: Final = re.compile(r"[^,:\[\]{}\s\"']+(?:[ \t]+[^,:\[\]{}\s\"']+)*(?=[ \t]*:)")
"""A key without quotes; in forms of old solutions it may contain spaces."""
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|\r?\n|(.))|\r", re.DOTALL)
_BARE_KEY: Final = re.compile(r"[^,:\[\]{}\s\"'\\/]+")
_JSON_ARRAY: Final = re.compile(r"\[\s*\{\s*\"")
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class _NotationParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._dialect: Dialect = "plain"
        self._break: LineBreak | None = None
        self._spelt: list[tuple[Fields | Items, str | int, str, str]] = []

    def read(self, *, mark: bool, end_of_line: str) -> ServoyFile:
        lead = self._space()
        first = self._peek()
        if not first:
            raise NotationError("the file is empty")
        root: Fields | Items
        if first == "{":
            self._dialect = "json"
            root = self._object(1)
        elif first == "[":
            if _JSON_ARRAY.match(self._text, self._at):
                self._dialect = "json"
            root = self._array(1)
        else:
            root = self._members(end="", depth=1)
        self._space()
        if self._peek():
            self._fail(f"nothing is expected here, but there is {self._here()}")
        tail = self._text[len(self._text.rstrip(" \t\r\n")) :]
        style = FileStyle(
            dialect=self._dialect,
            line_break=self._break or "backslash",
            end_of_line=end_of_line,
            mark=mark,
            lead=lead,
            tail=tail,
        )
        self._keep_spellings(style)
        return ServoyFile(root=root, style=style)

    def _keep_spellings(self, style: FileStyle) -> None:
        """Preserve the spelling of texts that the writer would spell differently."""
        writer = _NotationWriter(style)
        for holder, key, value, raw in self._spelt:
            if writer.text(value) != raw:
                holder[key] = VerbatimText(value, raw)  # pyright: ignore[reportArgumentType, reportCallIssue] -- the place fits its holder

    def _value(self, depth: int, holder: Fields | Items, key: str | int) -> Value:
        match self._peek():
            case "{":
                return self._object(depth + 1)
            case "[":
                return self._array(depth + 1)
            case '"' | "'":
                raw = self._raw_text()
                value = self._unescaped(raw)
                self._spelt.append((holder, key, value, raw))
                return value
            case _:
                return self._word()

    def _object(self, depth: int) -> Fields:
        self._at += 1
        gap = self._space()
        if self._peek() == "}":
            self._at += 1
            empty = Fields()
            empty.gap = gap
            return empty
        fields = self._members(end="}", depth=depth)
        fields.inline = "\n" not in gap
        self._at += 1
        return fields

    def _members(self, *, end: str, depth: int) -> Fields:
        self._check_depth(depth)
        fields = Fields()
        while True:
            key = self._key()
            if key in fields:
                self._fail(f"the key {str(key)!r} occurs twice in one object")
            self._space()
            if self._peek() != ":":
                self._fail(f"a colon is expected after the key {str(key)!r}, not {self._here()}")
            self._at += 1
            self._space()
            fields[key] = self._value(depth, fields, key)
            if not self._more(end):
                return fields

    def _array(self, depth: int) -> Items:
        self._check_depth(depth)
        self._at += 1
        gap = self._space()
        items = Items()
        if self._peek() == "]":
            self._at += 1
            items.gap = gap
            return items
        items.inline = "\n" not in gap
        while True:
            items.append(self._value(depth, items, len(items)))
            if not self._more("]"):
                self._at += 1
                return items

    def _more(self, end: str) -> bool:
        """Whether another member follows; if not, the next character is `end`."""
        self._space()
        sign = self._peek()
        if sign == ",":
            self._at += 1
            self._space()
            if not self._peek():
                self._fail("the file ends after a comma: it is cut off")
            return True
        if sign != end:
            if not sign:
                self._fail(f"the file ends before {end!r}: it is cut off")
            self._fail(f"a comma is expected, not {self._here()}")
        return False

    def _key(self) -> str:
        if self._peek() in {'"', "'"}:
            raw = self._raw_text()
            value = self._unescaped(raw)
        else:
            match = _WORD_KEY.match(self._text, self._at) or _WORD.match(self._text, self._at)
            if match is None:
                self._fail(f"a key is expected, not {self._here()}")
            self._at = match.end()
            raw = value = match[0]
        return value if raw == _key(value, self._dialect) else VerbatimText(value, raw)

    def _raw_text(self) -> str:
        match = _TEXT.match(self._text, self._at)
        if match is None:
            self._fail("a text is begun here and not ended: the file is cut off")
        self._at = match.end()
        return match[0]

    def _unescaped(self, raw: str) -> str:
        inner = raw[1:-1]
        if "\n" in inner or "\\n" in inner:
            self._note_break(inner)
        if "\\" not in inner and "\r" not in inner:
            return inner
        value = _ESCAPE.sub(_meaning, inner)
        if any("\ud800" <= character <= "\udfff" for character in value):
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value

    def _note_break(self, inner: str) -> None:
        if self._break is None:
            match = re.search(r"(?s)(?:\\\\)*(\\\r?\n|\\n|\n)", inner)
            kind = match[1] if match else ""
            if kind:
                self._break = "escape" if kind == "\\n" else "bare" if kind == "\n" else "backslash"

    def _word(self) -> Value:
        match = _WORD.match(self._text, self._at)
        if match is None:
            self._fail(f"a value is expected, not {self._here()}")
        self._at = match.end()
        word = match[0]
        if word in _WORDS:
            return _WORDS[word]
        return int(word) if _WHOLE.fullmatch(word) and word != "-0" else BareWord(word)

    def _check_depth(self, depth: int) -> None:
        if depth > DEEPEST:
            self._fail(f"values are nested more than {DEEPEST} deep")

    def _space(self) -> str:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()
        return match[0]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _here(self) -> str:
        rest = self._text[self._at : self._at + 20].partition("\n")[0]
        return repr(rest) if rest else "the end of the file"

    def _fail(self, reason: str) -> NoReturn:
        raise NotationError(reason, line=self._text.count("\n", 0, self._at) + 1)


def _meaning(match: "re.Match[str]") -> str:
    if match[1]:
        return chr(int(match[1], 16))
    if match[2]:
        return _LETTERS.get(match[2], match[2])
    return "" if match[0] == "\r" else "\n"


class _NotationWriter:
    def __init__(self, style: FileStyle) -> None:
        self._style = style
        self._is_json = style.dialect == "json"

    def value(self, value: Value, depth: int) -> str:
        match value:
            case Fields():
                return "{" + self._inside(value, self.members(value, depth), depth) + "}"
            case Items():
                parts = [self.value(item, depth + 1) for item in value]
                return "[" + self._inside(value, self._joined(value, parts, depth), depth) + "]"
            case True:
                return "true"
            case False:
                return "false"
            case None:
                return "null"
            case str():
                return self.text(value)
            case _:
                return repr(value)

    def members(self, fields: Fields, depth: int) -> str:
        parts = [
            f"{self._key(key)}:{self.value(member, depth + 1)}" for key, member in fields.items()
        ]
        return self._joined(fields, parts, depth)

    def text(self, value: str) -> str:
        match value:
            case VerbatimText():
                return value.raw
            case BareWord():
                return str(value)
            case _:
                return _quoted(value, self._style.line_break)

    def _key(self, key: str) -> str:
        return key.raw if isinstance(key, VerbatimText) else _key(key, self._style.dialect)

    def _joined(self, holder: Fields | Items, parts: Iterable[str], depth: int) -> str:
        return ("," if holder.inline else f",{self._line(depth)}").join(parts)

    def _inside(self, holder: Fields | Items, body: str, depth: int) -> str:
        if not holder:
            return holder.gap if holder.gap is not None else "" if self._is_json else "\n\n"
        if holder.inline:
            return body
        return f"{self._line(depth)}{body}{self._line(depth - 1)}"

    def _line(self, depth: int) -> str:
        return "\n" + " " * 4 * depth if self._is_json else "\n"


_BREAKS: Final[dict[LineBreak, str]] = {"backslash": "\\\n", "escape": "\\n", "bare": "\n"}
_PLAIN_TEXT: Final = re.compile(r"[^\"\\/\x00-\x1f\x80-\x9f\u2000-\u20ff]*")
_SHORT: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\f": "\\f",
    "\r": "\\r",
    "</": "<\\/",
}
_SPECIAL: Final = re.compile(r"</|[\"\\\x00-\x1f\x80-\x9f\u2000-\u20ff]")


def _key(key: str, dialect: Dialect) -> str:
    if dialect == "plain" and _BARE_KEY.fullmatch(key):
        return key
    return _quoted(key, "backslash")


def _quoted(value: str, line_break: LineBreak) -> str:
    if _PLAIN_TEXT.fullmatch(value):
        return f'"{value}"'

    def spell(match: "re.Match[str]") -> str:
        special = match[0]
        if special == "\n":
            return _BREAKS[line_break]
        return _SHORT.get(special) or f"\\u{ord(special):04x}"

    return f'"{_SPECIAL.sub(spell, value)}"'
