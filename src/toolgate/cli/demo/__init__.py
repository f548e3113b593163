"""The demo on real MCP servers."""
