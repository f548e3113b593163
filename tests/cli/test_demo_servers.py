"""What the demo says of servers that cannot be installed."""

import sys
from pathlib import Path

from toolgate.cli.demo._servers import NPM, SERVERS, Node, install

SAID = """npm error code ECONNREFUSED
npm error request to http://127.0.0.1:9/x failed, reason: connect ECONNREFUSED
npm error A complete log of this run can be found in: /home/anna/.npm/_logs/1.log"""


async def test_the_reason_is_told_why_servers_could_not_be_installed(tmp_path: Path) -> None:
    script = tmp_path / "npm.py"
    script.write_text(f"import sys\nsys.exit({SAID!r})\n", encoding="utf-8")
    node = Node(node=sys.executable, npm=(sys.executable, str(script)), version="v20.0.0")
    of_npm = [server for server in SERVERS if server.home == NPM][:1]
    report = await install(tmp_path / "servers", node=node, say=print, servers=of_npm)
    assert report.servers == ()
    assert len(report.problems) == 1
    assert report.problems[0].endswith("failed, reason: connect ECONNREFUSED")


async def test_without_node_the_python_servers_are_left(tmp_path: Path) -> None:
    of_npm = [server for server in SERVERS if server.home == NPM]
    report = await install(tmp_path / "servers", node=None, say=print, servers=of_npm)
    assert report.servers == ()
    assert "Install Node to see the others." in report.problems[0]
