"""A stdio server that lists the tools of one real server, from `data/real_tools.jsonl`.

It knows just enough of the protocol to be listed and called, and imports nothing but JSON, so that
many of them start at once on a small machine. Started as `echo`, it has only that tool.
"""

import json
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "real_tools.jsonl"

ECHO = {
    "name": "echo",
    "description": "Echo the text back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "annotations": {"readOnlyHint": True, "idempotentHint": True},
}


def tools_of(server: str) -> list[dict[str, Any]]:
    """Its tools as it sent them."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    return [
        {key: value for key, value in row.items() if key != "server"}
        for row in rows
        if row["server"] == server
    ]


def answer(message: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The members of the response besides version and ID."""
    match message["method"]:
        case "initialize":
            about = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "menu", "version": "1"},
            }
            return {"result": about}
        case "tools/list":
            return {"result": {"tools": tools}}
        case "tools/call":
            text = message["params"].get("arguments", {}).get("text", "done")
            return {"result": {"content": [{"type": "text", "text": text}]}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Serve until standard input ends."""
    tools = [ECHO] if sys.argv[1] == "echo" else tools_of(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            said = {"jsonrpc": "2.0", "id": message["id"], **answer(message, tools)}
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
