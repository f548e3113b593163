"""Doors to the outside: MCP, REST, stdio."""
