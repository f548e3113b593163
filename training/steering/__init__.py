"""Trains the scanner's classifier of sentences."""
