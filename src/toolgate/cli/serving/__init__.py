"""Commands that serve: `serve`, `stdio`."""
