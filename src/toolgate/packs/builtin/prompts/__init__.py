"""The pack for managing prompts from an MCP client."""
