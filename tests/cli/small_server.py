"""A small MCP server on stdio, of the handshake era, that starts in no time: standard library only.

`--never` never answers, and nor does a call with the text "never"; `--dies` ends with an error,
`--mark FILE` makes a file at its start; `SMALL_SECRET` is written to standard error;
`SMALL_INSTRUCTIONS` are its instructions.
"""

# ruff: noqa: T201, TID251, PTH123, PLW1514 - a program of its own, which speaks on its streams
import json
import os
import sys
from typing import Any

TOOLS = [
    {
        "name": "echo",
        "description": "Echo a text back.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "What to say."},
                "times": {"type": "integer", "default": 1},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["text"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "add_numbers",
        "description": "Add two numbers and give their sum.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
    {
        "name": "fail",
        "description": "Say that it did not work.",
        "inputSchema": {"type": "object", "properties": {}},
    },
]


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "echo":
            text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
            return {"content": [{"type": "text", "text": f"{text} größer \x1b[31m"}]}
        case "add_numbers":
            total = {"sum": arguments["a"] + arguments["b"]}
            block = {"type": "text", "text": json.dumps(total)}
            return {"content": [block], "structuredContent": total}
        case _:
            return {"content": [{"type": "text", "text": "it did not work"}], "isError": True}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "small", "version": "1"},
                "instructions": os.environ.get("SMALL_INSTRUCTIONS", ""),
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    print(f"small server {os.environ.get('SMALL_SECRET', '')}", file=sys.stderr, flush=True)
    if "--mark" in sys.argv:
        open(sys.argv[sys.argv.index("--mark") + 1], "w").close()
    if "--dies" in sys.argv:
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        params = message.get("params") or {}
        is_ignored = (params.get("arguments") or {}).get("text") == "never"
        if "id" not in message or "--never" in sys.argv or is_ignored:
            continue
        result = answer(message["method"], params)
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            body["error"] = {"code": -32601, "message": "Method not found"}
        else:
            body["result"] = result
        print(json.dumps(body), flush=True)


if __name__ == "__main__":
    main()
