"""Turns ranked tools into the answer that a model reads."""
