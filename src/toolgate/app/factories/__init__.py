"""Builds the parts of a gateway from the settings, and rejects invalid settings."""
