"""A child process with a small gateway on its standard streams, or a relay to one.

Prints on purpose to standard output while it serves.
"""

import os
import subprocess
import sys
from typing import Any

import anyio

from tests.server.fake_gateway import FakeGateway, fake_app
from toolgate.server.stdio import attach_stdio, serve_stdio
from toolgate.types import Json, Peer


class NoisyGateway(FakeGateway):
    """Prints, in this process and in a child of its own, whenever it is called."""

    async def call(self, caller: Any, params: Json, peer: Peer | None, **options: Any) -> Json:
        print("noise")  # noqa: T201
        os.write(1, b"more noise\n")
        subprocess.run(["/bin/sh", "-c", "echo noise of a child; cat"], check=True)
        try:
            return await super().call(caller, params, peer, **options)
        except BaseException as error:
            print(type(error).__name__, file=sys.stderr, flush=True)  # noqa: T201
            raise


async def main() -> None:
    if sys.argv[1:]:
        await attach_stdio(sys.argv[1], sys.argv[2])
    else:
        await serve_stdio(fake_app(NoisyGateway(), max_body_bytes=20_000_000))


if __name__ == "__main__":
    anyio.run(main)
