"""Measuring search and intents on labelled requests."""
