"""Finds and masks secrets in texts.

`secrets.toml` describes what secrets look like. A detector is tried only on texts that contain
one of its words. The library detect-secrets (1.5.0) was measured first: 135 ms for 8 KB of
ordinary text, 0.25 s to import, no positions of its findings, and every longer word taken for a
key.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast

from toolgate.types import Json

_DATA = Path(__file__).with_name("secrets.toml")
_LONGEST = 4 * 2**20
"""Characters of one text that are searched; longer texts are data, such as an image."""
# Nesting levels of a value that are searched; Python's own recursion limit is 1,000. Chosen.
_DEEPEST = 200

_PLACEHOLDER = re.compile(
    r"""(?ix) \$\{ | \$\( | ^\$\w | ^%\w+%$ | <[^>]*> | ^\*+$ | ^x+$ | ^\.+$ | \.\.\. | …
    | (?:your|my|some|the|an?)[_ -]?(?:own[_ -]?)?(?:api|secret|token|key|pass)
    | example | placeholder | change[_-]?me | redacted | os\.environ | process\.env | getenv
    | ^(?:password|passwd|secret|token|string|required|optional|none|null|true|false|undefined)$
    """
)

_NAMED = re.compile(
    r"(?ix)^(?:.*[_.-])?(?:password|passwd|passphrase|client_?secret|api_?key|secret_?key"
    r"|access_?token|refresh_?token|auth_?token|private_?key|secret_?access_?key)$"
)
"""Names of keys whose text is a secret whatever it looks like."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


@dataclass(frozen=True, kw_only=True)
class SecretDetector:
    """A detector for one kind of secret."""

    name: str
    """The name of the kind in answers and in the audit."""

    words: tuple[str, ...]
    """Lower-case words; a text that contains none of them has no such secret."""

    expression: str
    """The regular expression that matches it."""

    entropy: float = 0.0
    """Smallest entropy in bits per character."""

    needs: str = ""
    """`mixed`: digits and letters together, as in no ordinary word."""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # All of them take 25 ms to compile, and few texts contain one of the words.
        return re.compile(self.expression)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each such secret."""
        for match in self._pattern.finditer(text):
            group = "secret" if "secret" in match.re.groupindex else 0
            if self._is_real(match[group]):
                yield match.span(group)

    def _is_real(self, secret: str) -> bool:
        if _PLACEHOLDER.search(secret) is not None:
            return False
        if self.needs == "mixed" and not _is_mixed(secret):
            return False
        return not self.entropy or _entropy(secret) >= self.entropy


@dataclass(frozen=True, kw_only=True)
class SecretMatch:
    """A secret found in a text."""

    name: str
    """The kind of secret."""

    start: int
    """Position of its first character."""

    end: int
    """Position after its last character."""


class SecretScanner:
    """Finds and masks secrets."""

    def __init__(self, detectors: tuple[SecretDetector, ...]) -> None:
        self._by_word: dict[str, list[SecretDetector]] = {}
        for detector in detectors:
            for word in detector.words:
                self._by_word.setdefault(word, []).append(detector)

    def find(self, text: str) -> list[SecretMatch]:
        """Return the secrets in a text, from left to right, without overlaps."""
        if len(text) > _LONGEST or len(text) < 8:
            return []
        folded = text.lower()
        # 80 word searches each take a tenth of the time of one expression with 80 alternatives.
        candidates: dict[str, SecretDetector] = {}
        for word, detectors in self._by_word.items():
            if word in folded:
                candidates |= {detector.name: detector for detector in detectors}
        if not candidates:
            return []
        spans = [
            SecretMatch(name=name, start=start, end=end)
            for name, detector in candidates.items()
            for start, end in detector.spans(text)
        ]
        return _apart(spans)

    def mask(self, text: str, counts: Counter[str]) -> str:
        """Replace the secrets in a text with their kind, and count them."""
        matches = self.find(text)
        if not matches:
            return text
        parts: list[str] = []
        at = 0
        for match in matches:
            parts += [text[at : match.start], f"[{match.name} masked]"]
            counts[match.name] += 1
            at = match.end
        return "".join([*parts, text[at:]])

    def mask_json(self, value: Any, counts: Counter[str]) -> Any:
        """Mask the secrets in a JSON value; returns the same object if there are none."""
        return self._masked(value, counts, "", 0)

    def _masked(self, value: Any, counts: Counter[str], name: str, depth: int) -> Any:
        if isinstance(value, str):
            if name and len(value) >= 6 and _is_named(name) and not _PLACEHOLDER.search(value):
                counts["named_secret"] += 1
                return "[named_secret masked]"
            return self.mask(value, counts)
        if depth > _DEEPEST:
            return value
        if isinstance(value, dict):
            table = cast("Json", value)
            # The Base64 of images, audio and blobs looks random and would cause false alarms.
            is_data = isinstance(table.get("data"), str) and "mimeType" in table
            changed = {
                key: masked
                for key, inner in table.items()
                if not (is_data and key == "data") and not (key == "blob" and "uri" in table)
                if (masked := self._masked(inner, counts, key, depth + 1)) is not inner
            }
            return {**table, **changed} if changed else table
        if isinstance(value, list):
            items = cast("list[Any]", value)
            masked_items = [self._masked(inner, counts, name, depth + 1) for inner in items]
            same = all(new is old for new, old in zip(masked_items, items, strict=True))
            return items if same else masked_items
        return value


@cache
def secret_detectors() -> tuple[tuple[SecretDetector, Mapping[str, list[str]]], ...]:
    """Return all detectors, with texts that they must find (`samples`) and must not (`others`)."""
    detectors: list[tuple[SecretDetector, Mapping[str, list[str]]]] = []
    for row in cast("list[Json]", tomllib.loads(_DATA.read_text(encoding="utf-8"))["detector"]):
        # A separator splits the samples, so that repository scanners do not report them.
        samples = [text.replace("¦", "") for text in row.pop("samples")]
        texts = {"samples": samples, "others": row.pop("others")}
        row |= {"expression": row.pop("pattern"), "words": tuple(row["words"])}
        detectors.append((SecretDetector(**row), texts))
    return tuple(detectors)


@cache
def secret_scanner() -> SecretScanner:
    """Return the scanner with all detectors, loaded when first needed."""
    return SecretScanner(tuple(detector for detector, _ in secret_detectors()))


def _is_named(name: str) -> bool:
    words = "_".join(_WORD.findall(name)).lower()
    return _NAMED.match(words) is not None


def _is_mixed(text: str) -> bool:
    return any(char.isdigit() for char in text) and any(char.isalpha() for char in text)


def _entropy(text: str) -> float:
    """Return the Shannon entropy in bits per character."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values()) if size else 0.0


def _apart(spans: list[SecretMatch]) -> list[SecretMatch]:
    """Of overlapping matches, keep the first; of those with the same start, the longest."""
    matches: list[SecretMatch] = []
    order: Callable[[SecretMatch], tuple[int, int]] = lambda match: (match.start, -match.end)  # noqa: E731
    for match in sorted(spans, key=order):
        if not matches or match.start >= matches[-1].end:
            matches.append(match)
        elif match.end > matches[-1].end:
            matches[-1] = SecretMatch(name=matches[-1].name, start=matches[-1].start, end=match.end)
    return matches
