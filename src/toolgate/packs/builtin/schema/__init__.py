"""The pack `schema`: versions, changes and types of database schemas."""
