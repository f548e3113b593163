"""Commands that control access: tokens, projects, permissions, guards, credentials, approvals."""
