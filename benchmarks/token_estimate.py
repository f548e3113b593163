"""Compares the estimate of tokens with what the tokenizers of models count.

    python -m benchmarks.token_estimate [FOLDER] [--quick] [--json]

Texts: the definitions of 642 tools of published servers as `tools/list` sends them, and what a
search result contains of each: its signature and the beginning of its description. FOLDER contains
the tokenizer files, which are part of the package litellm and are read with tiktoken and
tokenizers; nothing else needs these three packages:

    pip install tiktoken tokenizers && pip download --no-deps litellm && unzip litellm-*.whl
    python -m benchmarks.token_estimate litellm/litellm_core_utils/tokenizers
"""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from benchmarks._data import REAL_TOOLS, read_rows
from benchmarks._report import Report, parser_of, print_measured
from toolgate.base import json_text
from toolgate.base.token_estimate import estimate_tokens
from toolgate.search import signature
from toolgate.types import Json, json_object

RANKS = {
    "cl100k (GPT-4)": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k (GPT-4o)": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
DOCUMENTS = {"Claude 2": "anthropic_tokenizer.json", "DeepSeek": "deepseek_tokenizer.json"}
_PIECES = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
"""How cl100k first splits a text; o200k does nearly the same."""


def measure(quick: bool, folder: Path | None = None) -> Report:
    """Count every text with every tokenizer and return the table.

    Args:
        quick: Use the first 100 tools.
        folder: Tokenizer files; without them, words are counted.
    """
    definitions = read_rows(REAL_TOOLS)[: 100 if quick else None]
    texts = {
        "definition": [_listed(tool) for tool in definitions],
        "answer of a search": [_found(tool) for tool in definitions],
    }
    rows = [
        {"tokenizer": name, "text": what, **_compared(several, count)}
        for name, count in _counters(folder).items()
        for what, several in texts.items()
    ]
    return Report(
        name="token_estimate",
        title="Bytes / 4 against tokenizers",
        rows=rows,
        notes=(
            f"{len(definitions)} tools; `of all` is the estimate of all of them against the count.",
            "Error of a tool: how far its estimate is off, in per cent of the count.",
        ),
    )


def _listed(tool: Json) -> str:
    return json_text.dumps({key: tool[key] for key in tool if key != "server"}).decode()


def _found(tool: Json) -> str:
    call = signature(str(tool["name"]), json_object(tool.get("inputSchema")))
    return f"{call}\n{str(tool.get('description') or '')[:200]}"


def _compared(texts: Sequence[str], count: Callable[[str], int]) -> Mapping[str, Any]:
    real = [count(text) for text in texts]
    guessed = [estimate_tokens(text) for text in texts]
    errors = [abs(one - other) / other * 100 for one, other in zip(guessed, real, strict=True)]
    return {
        "counted": sum(real),
        "estimated": sum(guessed),
        "of all, %": round((sum(guessed) / sum(real) - 1) * 100, 1),
        "of a tool, mean %": round(mean(errors), 1),
        "95 of 100 within %": round(quantiles(errors, n=20)[-1], 1),
    }


def _counters(folder: Path | None) -> dict[str, Callable[[str], int]]:
    if folder is None:
        return {"words and signs": lambda text: len(re.findall(r"\w+|\W", text))}
    found: dict[str, Callable[[str], int]] = {}
    tiktoken, tokenizers = import_module("tiktoken"), import_module("tokenizers")
    for name, file in RANKS.items():
        pairs = [line.split() for line in (folder / file).read_bytes().splitlines() if line]
        ranks = {b64decode(piece): int(rank) for piece, rank in pairs}
        encoding = tiktoken.Encoding(
            name=file, pat_str=_PIECES, mergeable_ranks=ranks, special_tokens={}
        )
        found[name] = lambda text, encoding=encoding: len(encoding.encode_ordinary(text))
    for name, file in DOCUMENTS.items():
        whole = tokenizers.Tokenizer.from_file(str(folder / file))
        found[name] = lambda text, whole=whole: len(whole.encode(text, add_special_tokens=False))
    return found


if __name__ == "__main__":
    parser = parser_of("token_estimate")
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    print_measured(given, lambda quick: measure(quick, given.folder))
