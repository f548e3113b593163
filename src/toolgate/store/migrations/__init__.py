"""Steps of the database schema, append-only."""
