"""The steps of one turn and what they work with."""
