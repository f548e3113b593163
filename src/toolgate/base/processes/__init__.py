"""Processes: memory and event loop of the gateway, and worker processes for risky work."""
