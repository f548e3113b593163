"""Notations of configuration files beside TOML: JSON with comments, and YAML."""
