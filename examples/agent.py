"""Search tools from Python: the smallest program that uses Toolgate. Needs a toolgate.toml."""

import asyncio

from toolgate import Caller, DiscoverRequest, load, open_app


async def main() -> None:
    """Start the configured servers, search, and stop them."""
    async with open_app(load(), wait_s=30) as app:
        gateway, me = app.gateway, Caller.local(client="my-agent")
        found = await gateway.discovery.discover(
            me, DiscoverRequest(queries=("list files in a folder",))
        )
        print(found.text)  # the text for a model, within the token budget
        for tool in found.results:
            print(tool.tool_key, round(tool.relevance, 2), tool.signature)


if __name__ == "__main__":
    asyncio.run(main())
