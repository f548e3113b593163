"""Other MCP clients: which there are, where their files lie, and what stands in those."""
