"""The pack `sql`: read-only queries of connected databases."""
