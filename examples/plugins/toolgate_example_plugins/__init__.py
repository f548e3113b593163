"""Example backends for Toolgate: one module each, found through entry points."""
