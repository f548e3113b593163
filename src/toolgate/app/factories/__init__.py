"""Builds the parts of a gateway from the settings, and refuses settings that cannot work."""
