"""Evaluation of search, intents and answers on labelled requests."""
