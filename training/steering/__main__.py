"""Trains the scanner's sentence classifier and writes its weights.

    python -m training.steering --catalogs FOLDER [--out FILE]
    python -m training.steering --catalogs FOLDER --cross-validate {servers,writers}

FOLDER has a folder for each public catalog of tools, with `tools.jsonl`. With `--cross-validate`
nothing is written. `servers`: the real tools, by server, and the poisoned ones of the benchmark are
split into five parts, and the scanner judges each part with a classifier that was trained without
it. `writers`: it judges the definitions of each writer with a classifier that was trained with
those of the others.
"""

import argparse
import random
from pathlib import Path
from typing import Any, Final

from benchmarks._data import DATA, REAL_TOOLS, read_rows
from benchmarks.scanner import definition_of, is_held
from toolgate.catalog.scanner import OtherServersTools, Scanner, is_suspicious
from toolgate.catalog.scanner.classifier import Classifier, Place
from toolgate.catalog.scanner.sentences import Sentence
from training.steering.fitting import FOLDS, Examples, fit
from training.steering.sentences import (
    catalog_texts,
    composed,
    definition_texts,
    fold_of,
    sentences_of,
    tool_texts,
    written,
    written_definitions,
)

OUT: Final = Path(__file__).parents[2] / "src/toolgate/catalog/scanner/classifier.npz"

# Chosen by cross-validation.
_COMPOSED: Final = 24_000
_COMPOSED_WEIGHT: Final = 2.0
_HAND_WRITTEN: Final = 8.0
_REAL: Final = 12.0
"""Weights of composed sentences, of those written by hand, and of those of real servers; the weight
of those of public catalogs is 1."""


def main() -> None:
    """Train and write, or cross-validate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--catalogs", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--cross-validate", choices=("servers", "writers"))
    options = parser.parse_args()
    real, poisoned = read_rows(REAL_TOOLS), read_rows(DATA / "poisoned_tools.jsonl")
    examples = _examples(options.catalogs, real)
    _add_poisoned(examples, poisoned, fit(examples).classifier)
    print(f"{len(examples.labels):,} sentences, {sum(examples.labels):,.0f} of them poisoned")
    if options.cross_validate == "servers":
        judge_servers(examples, real, poisoned)
        return
    if options.cross_validate == "writers":
        judge_writers(examples)
        return
    fit(examples).save(options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


def judge_servers(
    examples: Examples, real: list[dict[str, Any]], poisoned: list[dict[str, Any]]
) -> None:
    """Print how many tools the scanner holds back, with a classifier that never saw them."""
    neighbours = OtherServersTools.of((tool["server"], tool["name"]) for tool in real)
    held: dict[str, list[str]] = {"real": [], "poisoned": []}
    for fold in range(FOLDS):
        scanner = Scanner(classifier=fit(examples, leave_out=fold).classifier)
        for label, tools in (("real", real), ("poisoned", poisoned)):
            held[label] += [
                f"{tool['server']}:{tool['name']}"
                for tool in tools
                if fold_of(tool["server"]) == fold and is_held(scanner, tool, neighbours)
            ]
    print(f"real tools held: {len(held['real'])} of {len(real)}: {', '.join(held['real'])}")
    share = len(held["poisoned"]) / len(poisoned)
    print(f"poisoned tools held: {len(held['poisoned'])} of {len(poisoned)} ({share:.1%})")


def judge_writers(examples: Examples) -> None:
    """Print how many definitions of each writer the scanner holds back, trained without them."""
    for fold, (writer, rows) in enumerate(written_definitions().items(), FOLDS):
        scanner = Scanner(classifier=fit(examples, leave_out=fold).classifier)
        for label in ("poisoned", "honest"):
            tools = [row for row in rows if row["label"] == label]
            held = sum(
                is_suspicious(scanner.scan(definition_of(row), server=row["server"]))
                for row in tools
            )
            print(f"writer {writer}: {held} of {len(tools)} {label} definitions held", flush=True)


def _examples(catalogs: Path, real: list[dict[str, Any]]) -> Examples:
    rng = random.Random(11)  # noqa: S311 - the same sentences each time
    examples = Examples()
    for server, place, sentences in catalog_texts(catalogs):
        examples.add_text(sentences, 0.0, place=place, fold=fold_of(server))
    for tool in real:
        for place, text in tool_texts(tool):
            fold = fold_of(tool["server"])
            examples.add_text(sentences_of(text), 0.0, place=place, weight=_REAL, fold=fold)
    for label, name in ((1.0, "poisoned"), (0.0, "honest")):
        for sentence in composed(name, _COMPOSED, rng):
            examples.add_text(sentence, label, follows=True, weight=_COMPOSED_WEIGHT)
    for label, name in ((1.0, "poisoned"), (0.0, "benign")):
        for place, sentences, follows in written("train", name):
            examples.add_text(sentences, label, place=place, follows=follows, weight=_HAND_WRITTEN)
    for fold, rows in enumerate(written_definitions().values(), FOLDS):
        for place, sentences, labels in (text for row in rows for text in definition_texts(row)):
            examples.add_text(sentences, labels, place=place, weight=_HAND_WRITTEN, fold=fold)
    return examples


def _add_poisoned(
    examples: Examples, poisoned: list[dict[str, Any]], classifier: Classifier
) -> None:
    """The poisoned sentence of each poisoned tool: the one with the highest score so far."""
    for tool in poisoned:
        windows: list[tuple[Place, list[Sentence], bool]] = []
        for place, text in tool_texts(tool):
            sentences = sentences_of(text)
            for at in range(len(sentences)):
                sizes = (1, 2)[: len(sentences) - at]
                windows.extend((place, sentences[at : at + size], at > 0) for size in sizes)
        scored = [(classifier.most_steering(window[1], window[0]), window) for window in windows]
        known = [(best.score, window) for best, window in scored if best is not None]
        if known:
            place, sentences, follows = max(known, key=lambda pair: pair[0])[1]
            examples.add_text(
                sentences,
                1.0,
                place=place,
                follows=follows,
                weight=_HAND_WRITTEN,
                fold=fold_of(tool["server"]),
            )


if __name__ == "__main__":
    main()
