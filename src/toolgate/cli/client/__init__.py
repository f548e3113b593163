"""Connecting commands to the running gateway, or to one started for the command."""
