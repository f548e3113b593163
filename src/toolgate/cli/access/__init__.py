"""Commands for tokens, projects, permissions, guards and credentials."""
