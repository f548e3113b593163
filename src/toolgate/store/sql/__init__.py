"""The repositories of the store, in SQL."""
