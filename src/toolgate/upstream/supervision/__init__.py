"""Supervision of a server's connection: attempts, pauses, and when it may sleep."""
