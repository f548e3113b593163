"""From ranked tools to the answer that a model reads."""
