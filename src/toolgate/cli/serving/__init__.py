"""Commands that serve the gateway or control it: `serve`, `stdio`, `start`, `stop` and so on."""
