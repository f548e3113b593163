"""Pages about access: projects, tokens, permissions, guards, credentials."""
