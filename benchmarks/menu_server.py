"""A stdio server that lists the tools of one real server, from `data/real_tools.jsonl`.

Knows just enough of the protocol to be listed and called, with nothing imported beyond JSON, so
that many of them start at once on a small machine.
"""

import json
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "real_tools.jsonl"


def tools_of(server: str) -> list[dict[str, Any]]:
    """Its tools as it sent them."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    return [
        {key: value for key, value in row.items() if key != "server"}
        for row in rows
        if row["server"] == server
    ]


def answer(message: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The members of the answer beside version and id."""
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
            return {"result": {"content": [{"type": "text", "text": "done"}]}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


def main() -> None:
    """Serve until standard input ends."""
    tools = tools_of(sys.argv[1])
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            said = {"jsonrpc": "2.0", "id": message["id"], **answer(message, tools)}
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
