"""Read-only access to connected databases, and the guard for SQL statements."""
