"""Detect the intent of a message: keywords, cascade, intent files, log."""
