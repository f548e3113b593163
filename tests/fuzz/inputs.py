"""One input of the fuzzer: a request over HTTP, bytes on a socket, or lines of a stdio client."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import orjson

Kind = Literal["request", "socket", "stdio"]
"""`request`: an HTTP request after parsing; `socket`: bytes of one HTTP connection; `stdio`: lines
of a stdio client."""

Leave = Literal["", "in_body", "in_answer"]
"""When the client closes its connection: after the answer, before its body is whole, or as soon as
the answer begins."""

CORPUS = Path(__file__).parent / "corpus"
"""Inputs that once failed; every run begins with them."""


@dataclass(frozen=True, kw_only=True)
class FuzzInput:
    """An input, independent of the process: `{admin}`, `{session}` and the like are filled in."""

    kind: Kind = "request"
    method: str = "GET"
    target: str = "/"
    """Path and query as they stand in the request line."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    leave: Leave = ""

    def to_json(self) -> bytes:
        """The input as a file of the corpus holds it."""
        fields: dict[str, Any] = {"kind": self.kind}
        if self.kind == "request":
            fields |= {"method": self.method, "target": self.target, "headers": self.headers}
        try:
            fields["body"] = self.body.decode("utf-8")
        except UnicodeDecodeError:
            fields["base64"] = base64.b64encode(self.body).decode("ascii")
        if self.leave:
            fields["leave"] = self.leave
        return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def from_json(cls, text: bytes) -> "FuzzInput":
        """The input of a corpus file."""
        fields: Mapping[str, Any] = orjson.loads(text)
        assert fields["kind"] in get_args(Kind), fields["kind"]
        encoded = fields.get("base64")
        return cls(
            kind=fields["kind"],
            method=fields.get("method", "GET"),
            target=fields.get("target", "/"),
            headers=tuple((name, value) for name, value in fields.get("headers", ())),
            body=base64.b64decode(encoded) if encoded else fields.get("body", "").encode(),
            leave=fields.get("leave", ""),
        )


def load_corpus() -> dict[str, FuzzInput]:
    """The inputs of the corpus by file name."""
    return {
        path.stem: FuzzInput.from_json(path.read_bytes()) for path in sorted(CORPUS.glob("*.json"))
    }


def save_to_corpus(entry: FuzzInput, folder: Path = CORPUS) -> Path:
    """Write an input under a name that its content decides, so that equal ones share a file."""
    text = entry.to_json()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{entry.kind}-{hashlib.sha256(text).hexdigest()[:12]}.json"
    path.write_bytes(text)
    return path
