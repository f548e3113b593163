"""Decodes text that is encoded inside a text, also several times over.

Models read Base64, hexadecimal and simple ciphers almost as easily as plain text; people do not.
Honest definitions encode no sentences, so a decoded sentence is a finding in itself.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from toolgate.catalog.scanner.normalize import MAX_CHARS

_MAX_LAYERS: Final = 4
"""Encodings inside each other that are decoded (chosen: attacks in use have two)."""

_FEWEST_WORDS: Final = 3
"""Words of a decoded text that make it a sentence, and not a key or a hash (chosen)."""

_READABLE: Final = 0.85
"""Share of letters and spaces from which decoded bytes count as text (chosen)."""

_FEWEST_DIFFERENT: Final = 8
"""Different characters of a sentence; patterns have fewer (chosen)."""

_MIXED_CASE: Final = 0.12
"""Share of capital letters and digits from which words may be Base64: it has about half, and
sentences have a twentieth (measured on the tools of public catalogs)."""

_SEPARATED: Final = r"[\s,;:|\"'-]{0,4}"

_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/_-][\s\"',=]{0,3}){24,}+")
_BASE32: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Z2-7]{8}\s{0,2}){4,}+[A-Z2-7]{0,7}(?![A-Za-z0-9])"
)
_BASE85: Final = re.compile(r"\S{40,}+")
_HEX: Final = re.compile(rf"(?<![0-9A-Fa-f])(?:(?:0x)?[0-9A-Fa-f]{{2}}{_SEPARATED}){{16,}}+")
_BINARY: Final = re.compile(rf"(?<!\d)(?:[01]{{7,8}}{_SEPARATED}){{16,}}+(?!\d)")
_DECIMAL: Final = re.compile(r"(?<!\d)(?:\d{2,3}[\s,;]{1,3}){15,}+(?:\d{2,3}(?!\d))?")
_ESCAPED_CHAR: Final = (
    r"&(?:amp;)*+#(?:\d{2,7}|x[0-9A-Fa-f]{2,6});?|\\(?:[0-7]{3}|x[0-9A-Fa-f]{2}"
    r"|u(?:\{[0-9A-Fa-f]{2,6}\}|[0-9A-Fa-f]{4})|U[0-9A-Fa-f]{8})"
    r"|[Uu]\+[0-9A-Fa-f]{4,6}|%(?:25)*+[0-9A-Fa-f]{2}|=[0-9A-F]{2}"
)
"""A character as HTML, programming languages, Unicode, URLs and quoted-printable write it."""
_ESCAPES: Final = re.compile(rf"(?:(?:{_ESCAPED_CHAR})\s{{0,2}}){{8,}}+")
_ESCAPE: Final = re.compile(_ESCAPED_CHAR)
_CODE: Final = re.compile(r"(?<=#)\d+|(?<=\\)[0-7]{3}|[0-9A-Fa-f]{2,8}(?=\W*$)")
_MORSE: Final = re.compile(r"(?:[.\-·−–_]{1,5}[ /|]{1,9}){16,}+[.\-·−–_]{0,5}")
_PRINTABLE: Final = re.compile(rb"[\t\n\r\x20-\x7e]{16,}+")

_MORSE_LETTERS: Final = dict(
    zip(
        re.findall(
            r"\S+",
            ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..-"
            " ...- .-- -..- -.-- --..",
        ),
        "abcdefghijklmnopqrstuvwxyz",
        strict=True,
    )
)
"""International Morse code, https://www.itu.int/rec/R-REC-M.1677-1-200910-I/."""

_LOWER: Final = "abcdefghijklmnopqrstuvwxyz"


def _alphabet(letters: str) -> dict[int, int]:
    return str.maketrans(_LOWER + _LOWER.upper(), letters + letters.upper())


_SHIFTS: Final = {
    ("ROT13" if shift == 13 else f"a Caesar cipher (shift {shift})"): _alphabet(
        _LOWER[-shift:] + _LOWER[:-shift]
    )
    for shift in range(1, 26)
} | {"Atbash": _alphabet(_LOWER[::-1])}
"""Alphabets that decode a cipher; each replaces letters by others."""

_COMMON: Final = frozenset(
    re.findall(
        r"\w+",
        "the and this that with from user users before tool tools last must file files call send"
        " read every other your their will when into never always include first secret password"
        " ignore disregard previous instructions conversation message content response without",
    )
)
"""Words of an order to a model; only encoded text has several of them encoded."""

_ENOUGH: Final = 8
"""Letters of a word that alone shows a cipher; of shorter ones there must be three (chosen)."""


def _reversed(word: str) -> str:
    return word[::-1]


def _encoders() -> Iterator[tuple[str, Callable[[str], str]]]:
    for name, decoding in _SHIFTS.items():
        encoding = {to: of for of, to in decoding.items()}
        yield name, lambda word, table=encoding: word.translate(table)
    yield "reversed", _reversed


def _marks() -> dict[str, tuple[str, ...]]:
    """Return the ciphers by encoded word; words that exist as they are do not count."""
    marks: dict[str, tuple[str, ...]] = {}
    for cipher, encode in _encoders():
        for word in _COMMON:
            mark = encode(word)
            if mark not in _COMMON and mark != "loot":
                marks[mark] = (*marks.get(mark, ()), cipher)
    return marks


_MARKS: Final = _marks()
_LETTERS: Final = re.compile(r"[a-z]{3,}")


def decoded_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield readable text that is encoded in a text, as `(encoding, text)`; each encoding once."""
    left = MAX_CHARS
    parts: dict[str, list[str]] = {}
    layers = [(text[:MAX_CHARS], "")]
    for _ in range(_MAX_LAYERS):
        inner: list[tuple[str, str]] = []
        for outer_text, outer in layers:
            for encoding, content in _once_decoded(outer_text):
                if left <= 0:
                    break
                left -= len(content)
                name = f"{encoding} inside {outer}" if outer else encoding
                inner.append((content, name))
                if _is_readable(content):
                    parts.setdefault(name, []).append(content)
        layers = inner
    for name, contents in parts.items():
        yield name, "\n".join(contents)
    for name, content in _deciphered(text[:MAX_CHARS]):
        yield name, content


def _once_decoded(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is printable after one decoding; ciphers keep their length and come last."""
    for match in _BASE64.finditer(text):
        for content in _from_base64(re.sub(r"[^\w+/-]+", "", match[0])):
            yield "Base64", content
    for match in _BASE32.finditer(text):
        digits = re.sub(r"\s", "", match[0])
        if content := _printable(_attempt(base64.b32decode, digits + "=" * (-len(digits) % 8))):
            yield "Base32", content
    for match in _BASE85.finditer(text):
        for decode in (base64.b85decode, base64.a85decode):
            if content := _printable(_attempt(decode, match[0].strip("\"'`,;.()"))):
                yield "Base85", content
    for match in _HEX.finditer(text):
        pairs = re.findall(r"(?:0x)?([0-9A-Fa-f]{2})", match[0])
        if content := _printable(bytes.fromhex("".join(pairs))):
            yield "hexadecimal", content
    for pattern, base, name in ((_BINARY, 2, "binary"), (_DECIMAL, 10, "decimal codes")):
        for match in pattern.finditer(text):
            codes = [int(digits, base) for digits in re.findall(r"\d+", match[0])]
            if max(codes) < 256 and (content := _printable(bytes(codes))):
                yield name, content
    for match in _ESCAPES.finditer(text):
        if content := _printable(_unescaped(match[0]).encode(errors="replace")):
            yield "escape sequences", content
    for match in _MORSE.finditer(text):
        yield "Morse code", _from_morse(match[0])


def _from_base64(digits: str) -> Iterator[str]:
    mixed = sum(not char.islower() for char in digits)
    if mixed < _MIXED_CASE * len(digits):
        return
    plain = digits.replace("-", "+").replace("_", "/")
    for variant in (plain, plain[::-1], plain.translate(_SHIFTS["ROT13"])):
        # What precedes it, as in `key=` or a word, may move its beginning.
        for begin in range(4):
            whole = variant[begin : len(variant) - (len(variant) - begin) % 4]
            rest = variant[begin + len(whole) :]
            padded = whole + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else "")
            if content := _printable(_attempt(base64.b64decode, padded)):
                yield content


def _attempt(decode: Callable[[str], bytes], text: str) -> bytes:
    try:
        return decode(text)
    except (binascii.Error, ValueError):
        return b""


def _printable(content: bytes) -> str:
    """Return the text in decoded bytes; empty if they are none."""
    if content[:2] == b"\x1f\x8b" or content[:1] == b"\x78":
        content = _inflated(content) or content
    if content.count(0) * 3 > len(content):
        content = content.replace(b"\0", b"")  # UTF-16
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if len(text) >= 8 and not text.isascii() and text.replace("\n", " ").isprintable():
        return text
    return "\n".join(run.decode() for run in _PRINTABLE.findall(content))


def _inflated(content: bytes) -> bytes:
    try:
        # 47 takes gzip and zlib: https://docs.python.org/3/library/zlib.html#zlib.decompress
        return zlib.decompressobj(47).decompress(content, MAX_CHARS)
    except zlib.error:
        return b""


def _unescaped(text: str) -> str:
    # Escapes with blanks between them; otherwise blanks stand for themselves.
    if len(re.findall(r"\s+", text)) * 2 > len(_ESCAPE.findall(text)):
        text = re.sub(r"\s", "", text)
    return _ESCAPE.sub(_letter, text)


def _letter(match: re.Match[str]) -> str:
    token = match[0]
    digits = _CODE.search(token)
    assert digits is not None
    is_decimal = token.startswith("&") and "x" not in token.lower()
    is_octal = token[0] == "\\" and token[1].isdigit()
    code = int(digits[0], 10 if is_decimal else 8 if is_octal else 16)
    return chr(code) if code < 0x110000 else ""


def _from_morse(text: str) -> str:
    words = re.split(r"\s*[/|]\s*|\s{2,}", re.sub(r"[−–_]", "-", text).replace("·", "."))
    return " ".join(
        "".join(_MORSE_LETTERS.get(letter, "") for letter in word.split()) for word in words
    )


def _deciphered(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text with other letters in place of each one, or in reverse order."""
    found: dict[str, set[str]] = {}
    for word in set(_LETTERS.findall(text.lower())):
        for cipher in _MARKS.get(word, ()):
            found.setdefault(cipher, set()).add(word)
    for cipher, words in found.items():
        if len(words) < _FEWEST_WORDS and not any(len(word) >= _ENOUGH for word in words):
            continue
        if cipher == "reversed":
            yield "reversed text", text[::-1]
            yield "reversed words", re.sub(r"\S+", lambda match: match[0][::-1], text)
        else:
            yield cipher, text.translate(_SHIFTS[cipher])


def _is_readable(text: str) -> bool:
    """Whether a text has words, and is not a key, a picture or a hash."""
    letters = sum(char.isalpha() or char.isspace() for char in text)
    if letters < _READABLE * len(text) or len(set(text)) < _FEWEST_DIFFERENT:
        return False
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= _FEWEST_WORDS or not text.isascii()
