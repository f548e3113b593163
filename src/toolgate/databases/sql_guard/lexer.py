"""Splits a statement into tokens exactly as its database does.

If databases, their versions or their clients disagree, the text is refused: attacks exploit
differences between the text that was checked and the statement that runs.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from toolgate.databases.sql_guard.dialects import Dialect, words

Kind: TypeAlias = Literal["word", "name", "string", "number", "sign"]
"""An unquoted word, a quoted name, a string, a number, or one other character."""

_BLANKS: Final = frozenset(" \t\r\n")
_DIGITS: Final = frozenset("0123456789")
_SIGNS: Final = frozenset("(),;.+-*/%<>=!~^&|")
_NUMBER: Final = re.compile(
    r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+"
    r"|(?:[0-9][0-9_]*(?:\.(?!\.)[0-9]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?"
)
_DOLLAR: Final = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_CLOSING: Final = {"[": "]", "(": ")", "{": "}", "<": ">"}
_CLIENT_LINE: Final = re.compile(r"(?m)^[ \t]*(?:/|\.|[#@!].*|.*;)[ \t]*$")
_AFTER_BLANK_LINE: Final = words(
    """
    select from where and or on group order having union minus intersect except join left
    right full inner cross natural with connect start when then else end fetch offset values
    case as using by over partition in not exists between pivot unpivot
    """
)
_MOST_DEEP: Final = 40
"""Maximum nesting depth of brackets; chosen: far above human-written statements, far below the
recursion limit."""
_MOST_INDEXES: Final = 12
"""Maximum number of consecutive subscripts, as in `a[1][2]`. The parser's time grows
quadratically with them."""


class AmbiguousSqlError(ValueError):
    """The text can be read in more than one way, or in none; the message says why."""


@dataclass(frozen=True, kw_only=True)
class SqlToken:
    """A token."""

    kind: Kind
    """Kind of the token."""

    text: str
    """Source text of the token."""

    value: str
    """A word in lower case, a name without its quotes; otherwise the source text."""

    start: int
    """Start in the text without comments."""

    position: int
    """End in the original text."""

    @property
    def end(self) -> int:
        """End in the text without comments."""
        return self.start + len(self.text)

    @property
    def is_named(self) -> bool:
        """Whether the token can be a name."""
        return self.kind in {"word", "name"}

    def is_sign(self, sign: str) -> bool:
        """Whether the token is this character."""
        return self.kind == "sign" and self.text == sign

    def is_word(self, *words: str) -> bool:
        """Whether the token is one of these words, unquoted."""
        return self.kind == "word" and self.value in words


@dataclass(frozen=True, kw_only=True)
class LexedSql:
    """A text split into tokens."""

    pieces: Sequence[SqlToken]
    """The tokens in order."""

    plain: str
    """The text with each comment replaced by a space."""


def read(text: str, dialect: Dialect) -> LexedSql:
    """Split a text into tokens.

    Raises:
        AmbiguousSqlError: There is more than one way to read the text, or none.
    """
    return _Lexer(text, dialect).run()


class _Lexer:
    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._dialect = dialect
        self._at = 0
        self._pieces: list[SqlToken] = []
        self._plain: list[str] = []
        self._length = 0
        self._depth = 0
        self._indexes = 0

    def run(self) -> LexedSql:
        if "\0" in self._text:
            raise AmbiguousSqlError("a NUL byte: databases disagree about where the text ends")
        if self._dialect.own_quotes:
            self._refuse_client_lines()
        while self._at < len(self._text):
            self._step()
        return LexedSql(pieces=self._pieces, plain="".join(self._plain))

    def _step(self) -> None:
        text, at = self._text, self._at
        sign = text[at]
        if sign in _BLANKS:
            self._blank(sign)
        elif text.startswith("--", at):
            self._line_comment(2)
        elif sign == "#" and self._dialect.hash_comments:
            self._line_comment(1)
        elif text.startswith("/*", at):
            self._block_comment()
        elif sign == "'":
            self._string("")
        elif sign == '"':
            self._quoted('"', "string" if self._dialect.double_is_string else "name")
        elif sign == "`" and self._dialect.backticks:
            self._quoted("`", "name")
        elif sign == "[" and self._dialect.brackets:
            self._bracketed()
        elif sign == "$" and self._dialect.dollar_quotes:
            self._dollar()
        elif sign in _DIGITS or (sign == "." and text[at + 1 : at + 2] in _DIGITS):
            self._number()
        elif sign == "_" or sign.isalpha():
            self._word()
        else:
            self._sign(sign)

    def _blank(self, sign: str) -> None:
        self._at += 1
        self._keep(sign)

    def _keep(self, text: str) -> None:
        self._plain.append(text)
        self._length += len(text)

    def _add(self, kind: Kind, end: int, value: str | None = None) -> None:
        text = self._text[self._at : end]
        self._pieces.append(
            SqlToken(
                kind=kind,
                text=text,
                value=text if value is None else value,
                start=self._length,
                position=end,
            )
        )
        self._keep(text)
        self._at = end

    def _line_comment(self, width: int) -> None:
        text, start = self._text, self._at
        if self._dialect.hash_comments and width == 2:
            behind = text[start + 2 : start + 3]
            if behind and behind not in _BLANKS:
                raise AmbiguousSqlError(
                    "-- without a blank behind it: not a comment in every database"
                )
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        comment = text[start:end].removesuffix("\r")
        if "\r" in comment:
            raise AmbiguousSqlError(
                "a carriage return in a comment: the comment ends there in some databases"
            )
        self._at = end
        self._keep(" ")

    def _block_comment(self) -> None:
        text, start = self._text, self._at
        if self._dialect.hash_comments and re.match(r"/\*(?:M?!|\s*M?!)", text[start : start + 8]):
            raise AmbiguousSqlError("a comment that is run: /*! … */")
        depth, at = 1, start + 2
        while depth:
            close = text.find("*/", at)
            if close < 0:
                raise AmbiguousSqlError("a comment that does not end")
            opening = text.find("/*", at, close)
            if opening >= 0 and self._dialect.nested_comments:
                depth, at = depth + 1, opening + 2
            else:
                depth, at = depth - 1, close + 2
        comment = text[start:at]
        if self._dialect.hash_comments and ("/*" in comment[2:] or "set_var" in comment.lower()):
            raise AmbiguousSqlError("a comment in a comment, or a hint that changes a setting")
        self._at = at
        self._keep(" ")

    def _string(self, prefix: str) -> None:
        """Add a string whose opening quote follows a prefix."""
        escapes = self._dialect.escapes
        quote = self._at + len(prefix)
        lowered = prefix.lower()
        if lowered in {"q", "nq"}:
            self._add("string", self._end_of_own(quote))
            return
        is_escaped = escapes == "*" or bool(lowered and lowered == escapes)
        end = self._end_of("'", quote, is_escaped=is_escaped)
        before = self._pieces[-1] if self._pieces else None
        if before is not None and before.kind == "string" and (is_escaped or "\\" in before.text):
            raise AmbiguousSqlError("a string right behind a string with a backslash")
        self._add("string", end)

    def _end_of(self, quote: str, start: int, *, is_escaped: bool) -> int:
        text, at = self._text, start + 1
        while True:
            close = text.find(quote, at)
            if close < 0:
                raise AmbiguousSqlError("a quote that is not closed")
            backslashes = 0
            while is_escaped and close - backslashes > start + 1:
                if text[close - backslashes - 1] != "\\":
                    break
                backslashes += 1
            if backslashes and self._dialect.escapes == "*":
                # NO_BACKSLASH_ESCAPES is a mode of the session, which the text does not show.
                raise AmbiguousSqlError(
                    "a backslash before a quote: where the string ends is not sure"
                )
            if backslashes % 2:
                at = close + 1
            elif text.startswith(quote * 2, close):
                at = close + 2
            else:
                return close + 1

    def _end_of_own(self, quote: int) -> int:
        opening = self._text[quote + 1 : quote + 2]
        if not opening or opening in _BLANKS or opening == "'":
            raise AmbiguousSqlError("q'' without a sign that closes it")
        close = self._text.find(_CLOSING.get(opening, opening) + "'", quote + 2)
        if close < 0:
            raise AmbiguousSqlError("a quote that is not closed")
        return close + 2

    def _quoted(self, quote: str, kind: Literal["name", "string"]) -> None:
        end = self._end_of(
            quote, self._at, is_escaped=kind == "string" and self._dialect.escapes == "*"
        )
        inside = self._text[self._at + 1 : end - 1].replace(quote * 2, quote)
        if kind == "name" and not inside:
            raise AmbiguousSqlError("an empty name")
        self._add(kind, end, inside if kind == "name" else None)

    def _bracketed(self) -> None:
        close = self._text.find("]", self._at)
        if close < 0:
            raise AmbiguousSqlError("a [ that is not closed")
        self._add("name", close + 1, self._text[self._at + 1 : close])

    def _dollar(self) -> None:
        opening = _DOLLAR.match(self._text, self._at)
        if opening is None:
            raise AmbiguousSqlError("a placeholder: there are no values for it")
        close = self._text.find(opening[0], opening.end())
        if close < 0:
            raise AmbiguousSqlError("a quote that is not closed")
        self._add("string", close + len(opening[0]))

    def _number(self) -> None:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            raise AmbiguousSqlError(f"the sign {self._text[self._at]!r} outside of strings")
        end = match.end()
        if self._dialect.own_quotes and self._text[end : end + 1].lower() in {"d", "f"}:
            end += 1
        behind = self._text[end : end + 1]
        if behind and (behind.isalnum() or behind in "_$"):
            raise AmbiguousSqlError("a number that runs into a word")
        self._add("number", end)

    def _word(self) -> None:
        text, end = self._text, self._at
        inside = self._dialect.inside_names
        while end < len(text) and (text[end].isalnum() or text[end] in inside):
            end += 1
        word = text[self._at : end]
        prefix = "u&" if word in {"u", "U"} and text[end : end + 1] == "&" else word.lower()
        behind = self._at + len(prefix)
        follows = text[behind : behind + 1]
        if prefix == "u&" and follows == '"':
            raise AmbiguousSqlError('a name with escapes: U&"…"')
        if prefix in self._dialect.prefixes and follows == "'":
            self._string(text[self._at : behind])
            return
        if not word.isascii() and _looks_ascii(word):
            raise AmbiguousSqlError(f"the word {word[:40]!r}, which looks like another one")
        if not word.isascii() and not _is_plain(word):
            raise AmbiguousSqlError(
                f"the word {word[:40]!r} contains characters that are not letters"
            )
        self._add("word", end, word.lower() if word.isascii() else _ascii_lower(word))

    def _sign(self, sign: str) -> None:
        if sign not in _SIGNS and sign not in self._dialect.signs:
            raise AmbiguousSqlError(_strange(sign))
        if sign == "@" and self._dialect.hash_comments and not self._is_system_variable():
            raise AmbiguousSqlError("a variable of the session: @…")
        if sign in "([{":
            self._depth += 1
            if self._depth > _MOST_DEEP:
                raise AmbiguousSqlError(f"more than {_MOST_DEEP} brackets inside each other")
        elif sign in ")]}":
            self._depth -= 1
        before = self._pieces[-1].text if self._pieces else ""
        if sign == "[":
            self._indexes = self._indexes + 1 if before == "]" else 0
        if self._indexes > _MOST_INDEXES:
            raise AmbiguousSqlError(f"more than {_MOST_INDEXES} brackets behind each other")
        self._add("sign", self._at + 1)

    def _is_system_variable(self) -> bool:
        text, at = self._text, self._at
        return text.startswith("@@", at) or text[at - 1 : at] == "@"

    def _refuse_client_lines(self) -> None:
        """Refuse lines that clients of this database interpret, even inside a string."""
        text = self._text.replace("\r", "\n").rstrip()
        for line in _CLIENT_LINE.finditer(text):
            if line.end() < len(text) or line[0].strip() in {"/", "."}:
                raise AmbiguousSqlError(
                    f"the line {line[0].strip()[:40]!r}: clients of this database end the "
                    "statement there, or run it as a command"
                )
            if line[0].lstrip()[:1] in "#@!":
                raise AmbiguousSqlError("a line that clients of this database run as a command")
        for gap in re.finditer(r"\n[ \t\r]*\n\s*([^\W\d][\w$#]*|.)", text):
            if gap[1].lower() not in _AFTER_BLANK_LINE and gap[1] not in {",", ")", "(", "-"}:
                raise AmbiguousSqlError(
                    "an empty line before another word: clients of this database end the statement "
                    "there"
                )


def _strange(sign: str) -> str:
    if sign in "?:$@":
        return f"{sign!r}: a placeholder or a variable; there are no values for it"
    if sign.isprintable() and sign.isascii():
        return f"the sign {sign!r} outside of strings"
    return f"the sign U+{ord(sign):04X} outside of strings"


def _looks_ascii(word: str) -> bool:
    """Whether a case or Unicode conversion makes the word ASCII, as in some programs."""
    forms = (word.upper(), word.lower(), word.casefold(), unicodedata.normalize("NFKC", word))
    return any(form.isascii() for form in forms)


def _is_plain(word: str) -> bool:
    return all(sign.isascii() or unicodedata.category(sign)[0] in "LMN" for sign in word)


def _ascii_lower(word: str) -> str:
    return "".join(sign.lower() if sign.isascii() else sign for sign in word)
