"""Demo step: chat turns with a scripted model, real documents and a real database."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path

import anyio

from toolgate.base import json_text
from toolgate.base.installation import current_installation
from toolgate.cli.client._http_exchange import Exchange
from toolgate.types import Json, json_array, json_object

INSTALL_COMMAND = "" if find_spec("sqlglot") else current_installation().install_command("sql")
"""Command that installs what the step needs; empty if nothing is missing."""

_MODEL = "demo"
_THREAD = "demo"
_SAID_OF_ANYIO = "AnyIO is an asynchronous networking and concurrency library"
_STATEMENT = "SELECT name, version, size_kb FROM packages ORDER BY size_kb DESC, name LIMIT 3"
_QUESTIONS = (
    "According to our docs, what is AnyIO?",
    "From the database: which three of the installed packages are the largest?",
)
_STEPS: list[Json] = [
    {"user": "do the documents below help", "say": "yes"},
    {
        "user": "according to our docs",
        "call": {"name": "documents__retriever", "arguments": {"question": "What is AnyIO?"}},
    },
    {
        "after": "documents__retriever",
        "say": f"{_SAID_OF_ANYIO} that works on top of asyncio and trio [1].",
    },
    {
        "user": "from the database",
        "call": {"name": "sql__query", "arguments": {"sql": _STATEMENT}},
    },
    {"after": "sql__query", "say": "The three largest are:\n{result}"},
]


@dataclass(frozen=True, kw_only=True)
class TurnResult:
    """Result of a chat turn."""

    question: str
    """The question."""

    ran: str
    """Documents that were searched, or the tool that was called."""

    answer: str
    """Answer of the model."""

    tokens: int
    """Tokens of all requests to the model."""

    worked: bool
    """Whether the answer is grounded in the results."""


def turn_tables(folder: Path) -> Json:
    """Return configuration tables: scripted model, packs, a database of installed packages."""
    file = folder / "packages.db"
    rows = [
        (dist.metadata["Name"], dist.version, sum((f.size or 0) for f in dist.files or ()) // 1024)
        for dist in distributions()
    ]
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE packages (name TEXT, version TEXT, size_kb INTEGER)")
        database.executemany("INSERT INTO packages VALUES (?, ?, ?)", rows)
        database.commit()
    url = f"sqlite:///{file.as_posix()}"
    return {
        "connections": {"packages": {"url": url, "description": "Installed Python packages."}},
        "packs": {"enable": ["documents", "sql"], "disable": ["schema"]},
        "chat": {"engine": "plain"},
        "models": {_MODEL: {"provider": "scripted", "options": {"steps": _STEPS}}},
    }


async def run_turns(exchange: Exchange, folder: Path) -> AsyncGenerator[TurnResult]:
    """Run two turns of a thread: one answered from documents, one from a database."""
    await _add_documents(exchange, folder)
    for question in _QUESTIONS:
        status, raw = await exchange(
            "POST",
            "/v1/chat/completions",
            {
                "model": _MODEL,
                "messages": [{"role": "user", "content": question}],
                "metadata": {"thread_id": _THREAD},
                "toolgate": {"events": True},
            },
        )
        body = json_object(json_text.loads(raw))
        if status != 200:
            message = str(json_object(body.get("error")).get("message"))
            yield TurnResult(question=question, ran="", answer=message, tokens=0, worked=False)
            continue
        answer = str(body["choices"][0]["message"]["content"])
        metadata = json_object(body["toolgate"]["response_metadata"])
        searched = json_object(metadata.get("vs_metadata"))
        tools = [str(tool) for tool in json_array(metadata.get("tools"))]
        ran = ", ".join(tools)
        if searched:
            names = ", ".join(map(str, json_array(searched.get("searched_tables"))))
            ran = f"documents of {names}: {searched.get('num_documents')} passages, graded"
        yield TurnResult(
            question=question,
            ran=ran,
            answer=answer,
            tokens=int(metadata["token_usage"]["total_tokens"]),
            worked=await _is_grounded(exchange, bool(searched)),
        )


async def _add_documents(exchange: Exchange, folder: Path) -> None:
    """Import the READMEs of some installed libraries."""
    texts = {
        str(dist.metadata["Name"]): _readme(dist)
        for dist in distributions()
        if dist.metadata["Name"] in {"anyio", "mcp", "SQLAlchemy", "starlette", "uvicorn"}
    }
    await exchange("POST", "/api/v1/collections", {"name": "LIBRARIES", "description": "READMEs"})
    for name, text in texts.items():
        file = folder / f"{name}.md"
        await anyio.Path(file).write_text(f"# {name}\n\n{text}", encoding="utf-8")
        await exchange(
            "POST",
            "/api/v1/collections/LIBRARIES/documents",
            {"source": file.name, "text": f"# {name}\n\n{text}"},
        )


def _readme(dist: Distribution) -> str:
    """Return the README in the metadata of a distribution."""
    head, _, body = (dist.read_text("METADATA") or "").partition("\n\n")
    return body or head


async def _is_grounded(exchange: Exchange, is_document: bool) -> bool:
    """Whether the thread contains the passages or rows that the answer uses."""
    _, raw = await exchange("GET", f"/v1/chat/history?thread_id={_THREAD}", None)
    messages = json_array(json_object(json_text.loads(raw)).get("messages"))
    results = [str(message["content"]) for message in messages if message["role"] == "tool"]
    last = results[-1] if results else ""
    if is_document:
        return _SAID_OF_ANYIO in " ".join(last.replace("\\n", " ").split())
    return "size_kb" in last
