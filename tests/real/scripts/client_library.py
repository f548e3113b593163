"""Lists the tools of a gateway, searches and calls as one client library does; prints JSON.

`python client_library.py LIBRARY URL`, in an environment with that library. Each function below
is what the documentation of a library shows, with nothing set that a user would not set.
"""

# pyright: basic, reportMissingImports=false

import asyncio
import json
import sys
from typing import Any

QUERY = {"query": "convert a time between timezones"}
CALL = {
    "toolKey": "time:convert_time",
    "arguments": {"source_timezone": "UTC", "time": "15:30", "target_timezone": "Asia/Tokyo"},
}


async def mcp(url: str) -> dict[str, Any]:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as client:
        await client.initialize()
        return {
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "found": (await client.call_tool("tool_discovery", QUERY)).model_dump_json(),
            "called": (await client.call_tool("tool_execute", CALL)).model_dump_json(),
        }


async def fastmcp(url: str) -> dict[str, Any]:
    from fastmcp import Client

    async with Client(url) as client:
        return {
            "tools": [tool.name for tool in await client.list_tools()],
            "found": str(await client.call_tool("tool_discovery", QUERY)),
            "called": str(await client.call_tool("tool_execute", CALL)),
        }


async def openai_agents(url: str) -> dict[str, Any]:
    from agents.mcp import MCPServerStreamableHttp

    async with MCPServerStreamableHttp(params={"url": url}) as server:
        return {
            "tools": [tool.name for tool in await server.list_tools()],
            "found": str(await server.call_tool("tool_discovery", QUERY)),
            "called": str(await server.call_tool("tool_execute", CALL)),
        }


async def pydantic_ai(url: str) -> dict[str, Any]:
    from pydantic_ai.mcp import MCPToolset

    async with MCPToolset(url) as server:
        return {
            "tools": [tool.name for tool in await server.list_tools()],
            "found": str(await server.direct_call_tool("tool_discovery", QUERY)),
            "called": str(await server.direct_call_tool("tool_execute", CALL)),
        }


async def langchain(url: str) -> dict[str, Any]:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"toolgate": {"url": url, "transport": "streamable_http"}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    return {
        "tools": list(tools),
        "found": str(await tools["tool_discovery"].ainvoke(QUERY)),
        "called": str(await tools["tool_execute"].ainvoke(CALL)),
    }


def smolagents(url: str) -> dict[str, Any]:
    from smolagents import MCPClient

    with MCPClient({"url": url, "transport": "streamable-http"}) as found:
        tools = {tool.name: tool for tool in found}
        return {
            "tools": list(tools),
            "found": str(tools["tool_discovery"](**QUERY)),
            "called": str(tools["tool_execute"](**CALL)),
        }


async def mcp_use(url: str) -> dict[str, Any]:
    from mcp_use import MCPClient

    client = MCPClient.from_dict({"mcpServers": {"toolgate": {"url": url}}})
    session = await client.create_session("toolgate")
    try:
        return {
            "tools": [tool.name for tool in await session.list_tools()],
            "found": str(await session.call_tool("tool_discovery", QUERY)),
            "called": str(await session.call_tool("tool_execute", CALL)),
        }
    finally:
        await client.close_all_sessions()


async def llama_index(url: str) -> dict[str, Any]:
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    found = await McpToolSpec(client=BasicMCPClient(url)).to_tool_list_async()
    tools = {tool.metadata.name: tool for tool in found}
    return {
        "tools": list(tools),
        "found": str(await tools["tool_discovery"].acall(**QUERY)),
        "called": str(await tools["tool_execute"].acall(**CALL)),
    }


async def google_adk(url: str) -> dict[str, Any]:
    from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
    from google.adk.tools.mcp_tool.mcp_toolset import MCPToolset

    toolset = MCPToolset(connection_params=StreamableHTTPConnectionParams(url=url))
    try:
        tools = {tool.name: tool for tool in await toolset.get_tools()}

        async def run(name: str, arguments: dict[str, Any]) -> str:
            return str(await tools[name].run_async(args=arguments, tool_context=_AdkContext()))

        return {
            "tools": list(tools),
            "found": await run("tool_discovery", QUERY),
            "called": await run("tool_execute", CALL),
        }
    finally:
        await toolset.close()


class _AdkContext:
    """What a tool asks of the run that it is in; nothing here."""

    def __getattr__(self, name: str) -> None:
        return None


async def semantic_kernel(url: str) -> dict[str, Any]:
    from semantic_kernel import Kernel
    from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin

    async with MCPStreamableHttpPlugin(name="toolgate", url=url) as plugin:
        kernel = Kernel()
        functions = kernel.add_plugin(plugin).functions

        async def run(name: str, arguments: dict[str, Any]) -> str:
            # Its own name of the parameter `arguments` takes all of them, as models are shown.
            answer = await plugin.call_tool(name, **arguments)
            return str(answer)

        return {
            "tools": list(functions),
            "found": await run("tool_discovery", QUERY),
            "called": await run("tool_execute", CALL),
        }


async def autogen(url: str) -> dict[str, Any]:
    from autogen_ext.tools.mcp import McpWorkbench, StreamableHttpServerParams

    async with McpWorkbench(StreamableHttpServerParams(url=url)) as workbench:
        return {
            "tools": [tool["name"] for tool in await workbench.list_tools()],
            "found": str(await workbench.call_tool("tool_discovery", QUERY)),
            "called": str(await workbench.call_tool("tool_execute", CALL)),
        }


async def agno(url: str) -> dict[str, Any]:
    from agno.tools.mcp import MCPTools

    async with MCPTools(url=url, transport="streamable-http") as toolkit:
        functions = toolkit.functions

        async def run(name: str, arguments: dict[str, Any]) -> str:
            answer = await functions[name].entrypoint(**arguments)
            return str(getattr(answer, "content", answer))

        return {
            "tools": list(functions),
            "found": await run("tool_discovery", QUERY),
            "called": await run("tool_execute", CALL),
        }


def strands(url: str) -> dict[str, Any]:
    from mcp.client.streamable_http import streamable_http_client
    from strands.tools.mcp import MCPClient

    with MCPClient(lambda: streamable_http_client(url)) as client:
        return {
            "tools": [tool.tool_name for tool in client.list_tools_sync()],
            "found": str(client.call_tool_sync("1", "tool_discovery", QUERY)),
            "called": str(client.call_tool_sync("2", "tool_execute", CALL)),
        }


def haystack(url: str) -> dict[str, Any]:
    from haystack_integrations.tools.mcp import MCPToolset, StreamableHttpServerInfo

    toolset = MCPToolset(StreamableHttpServerInfo(url=url))
    toolset.warm_up()
    tools = {tool.name: tool for tool in toolset}
    try:
        return {
            "tools": list(tools),
            "found": str(tools["tool_discovery"].invoke(**QUERY)),
            "called": str(tools["tool_execute"].invoke(**CALL)),
        }
    finally:
        toolset.close()


async def agent_framework(url: str) -> dict[str, Any]:
    from agent_framework import MCPStreamableHTTPTool

    async with MCPStreamableHTTPTool(name="toolgate", url=url) as tool:

        async def run(name: str, arguments: dict[str, Any]) -> str:
            answer = await tool.call_tool(name, **arguments)
            return str([getattr(item, "text", item) for item in answer])

        return {
            "tools": [function.name for function in tool.functions],
            "found": await run("tool_discovery", QUERY),
            "called": await run("tool_execute", CALL),
        }


def crewai(url: str) -> dict[str, Any]:
    from crewai_tools import MCPServerAdapter

    with MCPServerAdapter({"url": url, "transport": "streamable-http"}) as found:
        tools = {tool.name: tool for tool in found}
        return {
            "tools": list(tools),
            "found": str(tools["tool_discovery"].run(**QUERY)),
            "called": str(tools["tool_execute"].run(**CALL)),
        }


def main() -> None:
    """Drive one library."""
    library, url = sys.argv[1:]
    function = globals()[library]
    seen = asyncio.run(function(url)) if asyncio.iscoroutinefunction(function) else function(url)
    sys.stdout.write("\n" + json.dumps(seen, default=str) + "\n")


if __name__ == "__main__":
    main()
