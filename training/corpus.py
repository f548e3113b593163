"""Collects the texts that the table learns from, and pairs of a request and the tool it needs.

Only this module decides what may be read: tool definitions of every catalog, and of requests and
example sentences only the part marked `train`, of three sets. Each source and its licence is a row
in `docs/model.md`.

Writes `texts.jsonl` (rows `[source, text]`, ordered so that any beginning is a good mixture) and
`pairs.jsonl` (rows `[tool, request, text of the tool]`).
"""

import gzip
import hashlib
import html
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

CATALOGS = ("toucan", "stabletoolbench", "mcpverse", "metatool")
"""Folders under `tools/` whose definitions are read."""

REQUESTS = ("metatool",)
"""Folders under `tools/` whose requests marked `train` are read."""

SENTENCES = ("clinc150", "banking77")
"""Files under `intents/` whose rows marked `train` are read, without their labels."""

WEIGHT = {
    "tools": 20.0,
    "requests": 12.0,
    "sentences": 12.0,
    "cloud operations": 1.2,
    "parameters": 1.0,
    "glosses": 1.2,
    "examples": 1.0,
    "words": 0.4,
}
"""How early a source comes, on average, in the order of the texts."""

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_TAG = re.compile(r"<[^>]+>")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Distinct texts with their source, and pairs."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    """Source by text; the first source that contains a text keeps it."""

    pairs: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Tool, request, text of the tool."""

    def add(self, source: str, *texts: str) -> None:
        """Add texts of two letters or more."""
        for text in texts:
            short = text.strip()
            if len(short) > 1:
                self.texts.setdefault(short, source)


def collect(data: Path, wordnet: Path, aws: Path, google: Path) -> Corpus:
    """Collect all texts and pairs.

    Args:
        data: Folder with `tools/` and `intents/`, and optionally a file `real_tools.jsonl`.
        wordnet: Folder with `data.noun` and its siblings, of Debian's package `wordnet-base`.
        aws: Folder `botocore/data`.
        google: Folder `googleapiclient/discovery_cache/documents`.
    """
    corpus = Corpus()
    catalogs = [*(data / "tools" / name / "tools.jsonl" for name in CATALOGS)]
    catalogs += [path for path in [data / "real_tools.jsonl"] if path.exists()]
    for path in catalogs:
        for tool in rows(path):
            _add_tool(corpus, tool)
    for name in REQUESTS:
        _add_requests(corpus, data / "tools" / name)
    for name in SENTENCES:
        for row in rows(data / "intents" / f"{name}.jsonl"):
            if row["split"] == "train":
                corpus.add("sentences", row["text"])
    _add_operations(corpus, _aws_operations(aws))
    _add_operations(corpus, _google_operations(google))
    add_wordnet(corpus, wordnet)
    return corpus


def installed(package: str, path: str) -> Path:
    """Return a path of an installed package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"The package {package!r} is missing: see training/requirements.txt.")
    return Path(spec.submodule_search_locations[0]) / path


def write(corpus: Corpus, folder: Path) -> Counter[str]:
    """Write both files, always the same for a corpus; returns the number of texts by source."""
    folder.mkdir(parents=True, exist_ok=True)
    order = sorted(corpus.texts, key=lambda text: _place(text, WEIGHT[corpus.texts[text]]))
    _write_rows(folder / "texts.jsonl", ([corpus.texts[text], text] for text in order))
    _write_rows(folder / "pairs.jsonl", corpus.pairs)
    return Counter(corpus.texts.values())


def rows(path: Path) -> Iterator[Any]:
    """Read a JSON Lines file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def spoken(name: str) -> str:
    """Split a name into words: `getUserById` and `get_user_by_id` both give `get user by id`."""
    text = re.sub(r"[_\-./:]+", " ", name)
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", text).strip()


def tool_text(tool: dict[str, Any]) -> str:
    """Server and name in words, then the description."""
    head = f"{spoken(tool.get('server') or '')} {spoken(tool['name'])}".strip()
    return f"{head}: {cleaned(tool.get('description'), 1200)}"


def parameters(tool: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and descriptions of the top-level parameters."""
    schema = tool.get("input_schema") or tool.get("inputSchema") or {}
    found = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(found, dict):
        return []
    about = (
        (name, part.get("description")) for name, part in found.items() if isinstance(part, dict)
    )
    return [(spoken(name), cleaned(text, 150)) for name, text in about]


def cleaned(text: object, longest: int = 400) -> str:
    """Remove markup, links and repeated blanks, and cut to so many characters."""
    plain = _LINK.sub(r"\1", _TAG.sub(" ", html.unescape(str(text or ""))))
    return " ".join(plain.split())[:longest]


def _place(text: str, weight: float) -> float:
    # Weighted random order without replacement (Efraimidis and Spirakis 2006), from a digest
    # instead of a generator: adding a source leaves the order of the others as it was.
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())
    return -log((number + 1) / 2**56) / weight


def _write_rows(path: Path, found: Iterable[object]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in found)


def _sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE_END.split(text) if len(part) > 8]


def _add_tool(corpus: Corpus, tool: dict[str, Any]) -> None:
    whole = tool_text(tool)
    about = parameters(tool)
    listed = "; ".join(f"{name} {text}".strip() for name, text in about)
    corpus.add("tools", whole[:500], f"{whole} Parameters: {listed}"[:900] if listed else "")
    corpus.add("tools", spoken(tool["name"]), whole.partition(":")[0])
    corpus.add("tools", *_sentences(cleaned(tool.get("description")))[:4])
    corpus.add("tools", cleaned(tool.get("server_description")))
    corpus.add("parameters", *(f"{name} {text}" for name, text in about[:6]))


def _add_requests(corpus: Corpus, folder: Path) -> None:
    tools = {tool["id"]: tool_text(tool)[:500] for tool in rows(folder / "tools.jsonl")}
    for request in rows(folder / "queries.jsonl"):
        if request["split"] != "train":
            continue
        text = request["text"][:400]
        corpus.add("requests", text)
        corpus.pairs.extend((tool, text, tools[tool]) for tool in request["relevant"][:2])


def _add_operations(
    corpus: Corpus, operations: Iterable[tuple[str, str, str, list[tuple[str, str]]]]
) -> None:
    for service, name, about, arguments in operations:
        if not about:
            continue
        corpus.add("cloud operations", f"{service} {spoken(name)}: {about[:300]}", spoken(name))
        corpus.add("parameters", *(f"{spoken(n)} {text}" for n, text in arguments[:3] if text))


def _aws_operations(folder: Path) -> Iterator[tuple[str, str, str, list[tuple[str, str]]]]:
    for service in sorted(folder.iterdir()):
        versions = sorted(service.glob("*/service-2.json.gz"))
        if not versions:
            continue
        api = json.loads(gzip.decompress(versions[-1].read_bytes()))
        title = api["metadata"].get("serviceId") or service.name
        for name, operation in api["operations"].items():
            shape = api["shapes"].get((operation.get("input") or {}).get("shape"), {})
            members = (shape.get("members") or {}).items()
            arguments = [(n, cleaned(part.get("documentation"), 150)) for n, part in members]
            yield title, name, cleaned(operation.get("documentation")), arguments


def _google_operations(folder: Path) -> Iterator[tuple[str, str, str, list[tuple[str, str]]]]:
    newest = {path.name.partition(".")[0]: path for path in sorted(folder.glob("*.json"))}
    for path in newest.values():
        api = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(api, dict):
            continue
        title = api.get("title", api.get("name", "")).replace(" API", "")
        for method in _google_methods(api):
            name = method.get("id", "").partition(".")[2].replace(".", " ")
            known = (method.get("parameters") or {}).items()
            arguments = [(n, cleaned(part.get("description"), 150)) for n, part in known]
            yield title, name, cleaned(method.get("description")), arguments


def _google_methods(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (node.get("methods") or {}).values()
    for resource in (node.get("resources") or {}).values():
        yield from _google_methods(resource)


def add_wordnet(corpus: Corpus, folder: Path) -> None:
    """Add glosses, words and examples of WordNet."""
    for part in ("noun", "verb", "adj", "adv"):
        lines = (folder / f"data.{part}").read_text(encoding="latin-1").splitlines()
        for line in lines:
            if line.startswith("  "):  # the licence
                continue
            head, _, gloss = line.partition("|")
            fields = head.split()
            count = int(fields[3], 16)
            words = [
                re.sub(r"\(\w+\)$", "", w).replace("_", " ") for w in fields[4 : 4 + 2 * count : 2]
            ]
            corpus.add("glosses", f"{', '.join(words)}: {gloss.strip()[:300]}")
            corpus.add("words", *words)
            corpus.add("examples", *re.findall(r'"([^"]{8,})"', gloss))
