"""MCP server for clients, over HTTP and stdio."""
