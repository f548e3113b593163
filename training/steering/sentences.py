"""Sentences for training: composed from phrases, and taken from texts of tools."""

import json
import random
import re
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.scanner import definition_of
from toolgate.catalog.scanner import Scanner, is_suspicious
from toolgate.catalog.scanner.normalize import normalize
from toolgate.catalog.scanner.scanner import classified_texts
from toolgate.catalog.scanner.sentences import Sentence, split_sentences
from training.steering.regression import FOLDS

__all__ = ["catalog_texts", "composed", "fold_of", "sentences_of", "tool_texts", "written"]

_PHRASES: Final = Path(__file__).with_name("phrases.toml")
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


def written(split: str, label: str) -> list[list[Sentence]]:
    """The sentences of texts written by hand; for a poisoned text, those after the first."""
    rows = (_ROOT / "benchmarks" / "data" / "steering_texts.jsonl").read_text("utf-8").splitlines()
    out: list[list[Sentence]] = []
    for row in map(json.loads, rows):
        if row["split"] == split and row["label"] == label and row["kind"] not in _DISGUISED:
            sentences = sentences_of(row["description"])
            is_honest_first = (
                label == "poisoned" and row["kind"] not in _POISONED_FIRST and len(sentences) > 1
            )
            parameters = tool_texts({"inputSchema": definition_of(row).get("inputSchema", {})})
            described = [sentences_of(text) for text in parameters]
            if label == "benign" or not described:
                out.append(sentences[1:] if is_honest_first else sentences)
            # A poisoned parameter is the last one.
            out += described if label == "benign" else described[-1:]
    return out


def sentences_of(text: str) -> list[Sentence]:
    """The normalised sentences of a text, with their signals."""
    return list(split_sentences(normalize(text)))


def fold_of(server: str) -> int:
    """The fold of the cross-validation to which a server belongs."""
    return zlib.crc32(server.encode()) % FOLDS


def tool_texts(tool: dict[str, Any]) -> Iterator[str]:
    """The texts of a definition that the classifier reads, at any depth."""
    definition = {name: value for name, value in tool.items() if name not in ("server", "kind")}
    for where, text in classified_texts(definition):
        del where
        yield text


def catalog_texts(folder: Path) -> Iterator[list[Sentence]]:
    """The texts, as sentences, of the tools of public catalogs that no rule finds suspicious.

    Args:
        folder: With a folder for each catalog.
    """
    scanner = Scanner(classifier=None)
    for catalog in _CATALOGS:
        for row in (folder / catalog / "tools.jsonl").read_text("utf-8").splitlines():
            tool = json.loads(row)
            definition: dict[str, Any] = {
                "name": tool["name"],
                "description": str(tool["description"] or ""),
                "inputSchema": tool.get("input_schema") or {},
            }
            if not is_suspicious(scanner.scan(definition, server=f"{catalog}/{tool['server']}")):
                yield from (sentences_of(text) for text in tool_texts(definition))
