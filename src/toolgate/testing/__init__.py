"""Doubles and contract suites for people who extend Toolgate."""
