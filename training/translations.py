"""Writes the dictionaries of the search: `python -m training.translations [--check]`.

`translations.txt` has English expressions and what eight other languages say for them. The search
looks up stems, which take too long to make in each process, so they are made here. `--check`
writes nothing and fails if a file in the package is not what the list gives.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from toolgate.search.lexical.thesaurus import load_concepts
from toolgate.search.lexical.translation import DICTIONARIES, SENSES, STEMMERS, expression_key, stem
from toolgate.search.tokenizer import fold_all, terms_of, words_of_request

LANGUAGES: Final = ("de", "fr", "es", "pt", "zh", "ja", "it", "nl")
"""Columns of `translations.txt` after English (ISO 639-1)."""
_SHORTEST_STEM: Final = 4
"""Letters of a stem: shorter ones are those of too many words (hier, hi)."""
_SHORTEST_VERB: Final = 6
"""Letters of a verb of which forms are made; chosen."""
_PARTICIPLES: Final = {"de": ("t",), "nl": ("t", "d")}
"""Endings of regular participles, whose stems are not those of the infinitives."""
_MOST_SENSES: Final = 2
"""English expressions for one of another language. With 1, 2 and 3, 51, 56 and 56 % of 268 German
and French requests found their tool first."""
_LIST: Final = Path(__file__).with_name("translations.txt")


def translations() -> list[tuple[str, Mapping[str, Sequence[str]]]]:
    """Return the English expressions, with those of other languages by language."""
    rows: list[tuple[str, Mapping[str, Sequence[str]]]] = []
    for line in _LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            english, *others = (
                [text for text in map(str.strip, column.split(",")) if text]
                for column in line.split("|")
            )
            rows.append((english[0], dict(zip(LANGUAGES, others, strict=True))))
    return rows


def compiled() -> dict[str, str]:
    """Return the content of each dictionary by language: keys and English, sorted as UTF-8."""
    rows = translations()
    english = {english: "" for english, _ in rows}
    words = [words_of_request(text) for text in english]
    terms = {
        term: "" for expression in words if len(expression) == 1 for term in terms_of(expression)
    }
    terms |= {
        term: ""
        for concept in load_concepts()
        for expression in concept
        if len(expression) == 1
        for term in expression
    }
    files = {"en": terms}
    for language in LANGUAGES:
        pairs = [(text, english) for english, others in rows for text in others[language]]
        files[language] = _spaced(pairs, language) if language in STEMMERS else _unspaced(pairs)
    return {
        language: "".join(
            f"{key}\t{usual}\n"
            for key, usual in sorted(pairs.items(), key=lambda pair: pair[0].encode())
        )
        for language, pairs in files.items()
    }


def _spaced(pairs: Sequence[tuple[str, str]], language: str) -> dict[str, str]:
    stemmed: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    parts: dict[str, str] = {}
    for text, usual in pairs:
        words = words_of_request(text)
        stems = [stem(word, language) for word in words]
        key = expression_key(stems)
        if len(key) >= _SHORTEST_STEM:
            stemmed.setdefault(key, []).append(usual)
        written.setdefault(expression_key(fold_all(words)), []).append(usual)
        if len(words) > 1:
            parts |= dict.fromkeys((word for word in stems if len(word) >= _SHORTEST_STEM), "")
        elif language in _PARTICIPLES:
            for form in _participles(text, language):
                stemmed.setdefault(stem(form, language), []).append(usual)
    # A word as written in the list goes before one with the same stem: Ordner, ordnen.
    return {**parts, **_senses(stemmed), **_senses(written)}


def _participles(verb: str, language: str) -> Iterator[str]:
    """Yield the regular participles of an infinitive; for a plural noun, what is no word."""
    if verb.endswith("en") and verb.islower() and len(verb) >= _SHORTEST_VERB:
        for ending in _PARTICIPLES[language]:
            form = f"{verb.removesuffix('en')}{ending}"
            yield form
            yield f"ge{form}"


def _unspaced(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    words: dict[str, list[str]] = {}
    for text, usual in pairs:
        words.setdefault(text, []).append(usual)
    return _senses(words)


def _senses(meanings: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the first English expressions for each key, as the search reads them."""
    return {
        key: SENSES.join(list(dict.fromkeys(english))[:_MOST_SENSES])
        for key, english in meanings.items()
    }


def main() -> None:
    """Write the files, or check those that are there."""
    parser = argparse.ArgumentParser(prog="python -m training.translations", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one differs")
    given = parser.parse_args()
    for language, text in compiled().items():
        path = DICTIONARIES / f"{language}.txt"
        if not given.check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            raise SystemExit(
                f"{path.name} is not what training/translations.txt gives.\n"
                "Write it with: python -m training.translations"
            )


if __name__ == "__main__":
    main()
