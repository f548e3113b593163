"""Whole turns: from a message of the user to the answer of the model, tools included."""
