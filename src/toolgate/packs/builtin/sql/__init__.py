"""The pack `sql`: questions to connected databases, for reading only."""
