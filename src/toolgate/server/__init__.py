"""Entry points of the gateway: MCP, REST, OpenAI-compatible endpoints, stdio."""
