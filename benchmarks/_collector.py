"""A trace collector in a process of its own; it accepts everything and discards it."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

_PROGRAM = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def collector() -> Generator[str]:
    """The collector's address while it runs."""
    child = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/v1/traces"
    finally:
        child.terminate()
        child.wait()
