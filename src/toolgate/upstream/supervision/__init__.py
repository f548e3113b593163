"""Keeping the connection of a server up: attempts, pauses, and when it may sleep."""
