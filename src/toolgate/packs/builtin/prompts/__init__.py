"""The pack for looking after prompts from an MCP client."""
