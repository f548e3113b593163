// A client as people write it: connect, list the tools, find one and run it. Prints one JSON document.
//   node list_and_call.mjs 1|2 http URL | 1|2 stdio COMMAND ARGUMENT...
const [generation, transport, ...target] = process.argv.slice(2);
const [{ Client, StreamableHTTPClientTransport }, { StdioClientTransport }] =
  generation === "2"
    ? [await import("@modelcontextprotocol/client"), await import("@modelcontextprotocol/client/stdio")]
    : [
        {
          ...(await import("@modelcontextprotocol/sdk/client/index.js")),
          ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")),
        },
        await import("@modelcontextprotocol/sdk/client/stdio.js"),
      ];

const client = new Client({ name: "list-and-call", version: "1.0.0" });
await client.connect(
  transport === "http"
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: "inherit" }),
);
const { tools } = await client.listTools();
const found = await client.callTool({
  name: "tool_discovery",
  arguments: { query: "convert a time between timezones" },
});
const converted = await client.callTool({
  name: "tool_execute",
  arguments: {
    toolKey: "time:convert_time",
    arguments: { source_timezone: "Asia/Tokyo", time: "09:30", target_timezone: "UTC" },
  },
});
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), found, converted }));
