"""Builds the bundled embedding model: `python -m training --data FOLDER` runs every step."""
