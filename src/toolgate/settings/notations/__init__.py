"""Formats of configuration files besides TOML: JSON with comments, and YAML."""
