"""MCP for clients, over HTTP and stdio."""
