"""Commands for servers and tools."""
