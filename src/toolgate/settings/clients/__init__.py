"""Other MCP clients: which are supported, and the locations and formats of their files."""
