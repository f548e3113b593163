"""Shared by all commands: global options, output, exit status."""
