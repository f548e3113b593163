"""A stdio server with one tool, which writes into a file what it is asked to, then answers."""

import json
import sys
from pathlib import Path
from typing import Any

TOOL = {
    "name": "book",
    "description": "Write an entry into the ledger.",
    "inputSchema": {"type": "object", "properties": {"entry": {"type": "string"}}},
}


def answer(message: dict[str, Any], ledger: Path) -> dict[str, Any]:
    """The members of the answer beside version and id."""
    match message["method"]:
        case "initialize":
            about = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "ledger", "version": "1"},
            }
            return {"result": about}
        case "tools/list":
            return {"result": {"tools": [TOOL]}}
        case "tools/call":
            entry = message["params"]["arguments"]["entry"]
            with ledger.open("a", encoding="utf-8") as file:
                file.write(f"{entry}\n")
            return {"result": {"content": [{"type": "text", "text": entry}]}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Serve until standard input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message, Path(sys.argv[1]))}
            sys.stdout.write(f"{json.dumps(reply)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
