"""Servers as they are written: read, checked and collected from all files."""
