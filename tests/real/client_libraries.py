"""Drives client libraries from PyPI against a gateway: `python -m tests.real.client_libraries`.

Each gets an environment of its own in `.cache/libraries`, some gigabytes in all, so `make test`
does not run this. Names after the command select libraries. docs/clients.md has what was seen.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio

from tests.limits import HANG_S
from tests.real.processes import RunningGateway, gateway
from tests.real.setup import CACHE, ROOT, ensure
from toolgate.cli.demo._servers import _install_pypi, server_table

LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {
    "mcp": ("mcp==1.30.0",),
    "fastmcp": ("fastmcp==4.2.3",),
    "openai_agents": ("openai-agents==0.24.0",),
    "pydantic_ai": ("pydantic-ai-slim[mcp]==2.68.0",),
    "langchain": ("langchain-mcp-adapters==0.3.2",),
    "smolagents": ("smolagents[mcp]==1.26.0", "mcp<2"),
    "mcp_use": ("mcp-use==1.7.1",),
    "llama_index": ("llama-index-tools-mcp==0.6.0",),
    "google_adk": ("google-adk[mcp]==2.13.0",),
    "semantic_kernel": ("semantic-kernel[mcp]==1.45.0",),
    "autogen": ("autogen-ext[mcp]==0.7.5", "autogen-agentchat", "mcp<2"),
    "agno": ("agno==3.1.10", "fastmcp"),
    "strands": ("strands-agents==1.62.0",),
    "haystack": ("mcp-haystack==2.1.1",),
    "agent_framework": ("agent-framework-core==1.23.0", "mcp", "tenacity"),
    "crewai": ("crewai-tools[mcp]==1.15.30", "mcp<2"),
}
"""Functions of `scripts/client_library.py`, and what is installed for each."""

SCRIPT: Final = Path(__file__).parent / "scripts" / "client_library.py"


def main() -> int:
    """Print a line for each library: what it listed, found and called."""
    names = sys.argv[1:] or list(LIBRARIES)
    installed = ensure(print)
    servers = [server for server in installed.servers if server.name == "time"]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        table = server_table(servers, CACHE, Path(folder), installed.node)
        with gateway(Path(folder), table, {"mode": "meta"}) as running:
            running.wait_ready("time")
            for name in names:
                outcome = outcome_of(name, running)
                failed += not outcome.startswith("ok")
                print(f"{name}: {outcome}", flush=True)  # noqa: T201
    return 1 if failed else 0


def outcome_of(name: str, running: RunningGateway) -> str:
    """What a library did, in one line."""
    python = _python_of(name)
    done = subprocess.run(
        [str(python), str(SCRIPT), name, running.url],
        capture_output=True, text=True, timeout=HANG_S, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1][:200]}"
    seen = json.loads(done.stdout.strip().splitlines()[-1])
    problems = [
        *(["tool_discovery is not listed"] if "tool_discovery" not in seen["tools"] else []),
        *(
            ["the search has not found time:convert_time"]
            if "convert_time" not in seen["found"]
            else []
        ),
        *(["the call has not answered 00:30"] if "00:30" not in seen["called"] else []),
    ]
    return "; ".join(problems) or f"ok, {len(seen['tools'])} tools listed"


def _python_of(name: str) -> Path:
    place = ROOT / ".cache" / "libraries" / name
    stamp = place / ".installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != "\n".join(LIBRARIES[name]):
        problem = anyio.run(_install_pypi, place, LIBRARIES[name])
        if problem is not None:
            raise SystemExit(f"{name} cannot be installed: {problem}")
        stamp.write_text("\n".join(LIBRARIES[name]), encoding="utf-8")
    return place / "bin" / "python"


if __name__ == "__main__":
    sys.exit(main())
