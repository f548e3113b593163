"""Pages about who may use what: projects, tokens, permissions, guards, credentials."""
