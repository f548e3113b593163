"""OpenAI-compatible endpoints, `/v1`."""
