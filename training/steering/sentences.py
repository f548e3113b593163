"""Sentences for training: composed from phrases, and taken from texts of tools."""

import json
import random
import re
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks._data import read_rows
from benchmarks.scanner import definition_of
from toolgate.catalog.scanner import Scanner, is_suspicious
from toolgate.catalog.scanner.classifier import Place
from toolgate.catalog.scanner.normalize import normalize
from toolgate.catalog.scanner.scanner import classified_texts, place_of
from toolgate.catalog.scanner.sentences import Sentence, split_sentences
from training.steering.fitting import FOLDS

_PHRASES: Final = Path(__file__).with_name("phrases.toml")
_DEFINITIONS: Final = Path(__file__).with_name("definitions")
_ROOT: Final = Path(__file__).parents[2]
_DISGUISED: Final = (
    "leetspeak",
    "leet",
    "spaced-letters",
    "percent-encoding",
    "base64",
    "hidden-unicode",
)
"""Kinds of text that the scanner normalises before the classifier reads them."""
_POISONED_FIRST: Final = ("moved", "instructions", "prompt-text")
"""Kinds of text that are poisoned from their first sentence on."""
_SLOT: Final = re.compile(r"\{([^{}]+)\}")
_CATALOGS: Final = ("toucan", "mcpverse", "bfcl_basic", "stabletoolbench")


def composed(label: str, count: int, rng: random.Random) -> list[list[Sentence]]:
    """Sentences composed of phrases, `poisoned` or `honest`, half of them English."""
    languages = tomllib.loads(_PHRASES.read_text("utf-8"))
    out: list[list[Sentence]] = []
    for language, table in languages.items():
        share = count // 2 if language == "en" else count // 2 // (len(languages) - 1)
        texts = {_fill(rng.choice(table[label]), table["lists"], rng) for _ in range(share)}
        # The first sentence of a text is read as what the tool does, so another comes first.
        out += [sentences_of(f"Does what it says.\n{each}")[1:] for each in sorted(texts)]
    return out


def _fill(template: str, lists: dict[str, list[str]], rng: random.Random) -> str:
    text = template
    while _SLOT.search(text):
        text = _SLOT.sub(lambda match: rng.choice(lists[match[1]]), text)
    text = re.sub(r"\s+([,.;:])", r"\1", re.sub(r"\s+", " ", text)).strip(" ,")
    return text[:1].upper() + text[1:] if rng.random() < 0.7 else text


def written(split: str, label: str) -> Iterator[tuple[Place, list[Sentence], bool]]:
    """The sentences of texts written by hand; for a poisoned text, those after the first.

    Returns:
        The place, the sentences, and whether another sentence comes before them.
    """
    rows = (_ROOT / "benchmarks" / "data" / "steering_texts.jsonl").read_text("utf-8").splitlines()
    for row in map(json.loads, rows):
        if row["split"] == split and row["label"] == label and row["kind"] not in _DISGUISED:
            sentences = sentences_of(row["description"])
            is_honest_first = (
                label == "poisoned" and row["kind"] not in _POISONED_FIRST and len(sentences) > 1
            )
            parameters = tool_texts({"inputSchema": definition_of(row).get("inputSchema", {})})
            described: list[tuple[Place, list[Sentence], bool]] = [
                (place, sentences_of(text), False) for place, text in parameters
            ]
            if label == "benign" or not described:
                yield (
                    "description",
                    sentences[1:] if is_honest_first else sentences,
                    is_honest_first,
                )
            # A poisoned parameter is the last one.
            yield from described if label == "benign" else described[-1:]


def sentences_of(text: str) -> list[Sentence]:
    """The normalised sentences of a text, with their signals."""
    return list(split_sentences(normalize(text)))


def fold_of(server: str) -> int:
    """The fold of the cross-validation to which a server belongs."""
    return zlib.crc32(server.encode()) % FOLDS


def tool_texts(tool: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    """The texts of a definition that the classifier reads, at any depth, with their places."""
    definition = {name: value for name, value in tool.items() if name not in ("server", "kind")}
    for where, text in classified_texts(definition):
        yield place_of(where), text


def written_definitions() -> dict[str, list[dict[str, Any]]]:
    """The labelled definitions for training, by writer."""
    return {path.stem: read_rows(path) for path in sorted(_DEFINITIONS.glob("*.jsonl"))}


def definition_texts(row: dict[str, Any]) -> Iterator[tuple[Place, list[Sentence], list[float]]]:
    """The texts of a labelled definition as sentences, with 1 for each that steers, otherwise 0."""
    steering = [part.text for part in sentences_of(row.get("steering", ""))]
    for place, text in tool_texts(definition_of(row)):
        sentences = sentences_of(text)
        labels = [
            float(any(part in of.text or of.text in part for part in steering)) for of in sentences
        ]
        yield place, sentences, labels


def catalog_texts(folder: Path) -> Iterator[tuple[str, Place, list[Sentence]]]:
    """The texts, as sentences, of the tools of public catalogs that no rule finds suspicious.

    Args:
        folder: With a folder for each catalog.

    Returns:
        The server, the place of the text and its sentences; equal texts of a server once.
    """
    scanner = Scanner(classifier=None)
    seen: set[tuple[str, str]] = set()
    for catalog in _CATALOGS:
        for row in (folder / catalog / "tools.jsonl").read_text("utf-8").splitlines():
            tool = json.loads(row)
            server = f"{catalog}/{tool['server']}"
            definition: dict[str, Any] = {
                "name": tool["name"],
                "description": str(tool["description"] or ""),
                "inputSchema": tool.get("input_schema") or {},
            }
            if is_suspicious(scanner.scan(definition, server=server)):
                continue
            for place, text in tool_texts(definition):
                if (server, text) not in seen:
                    seen.add((server, text))
                    yield server, place, sentences_of(text)
