"""What solutions are made of: relations, value lists and forms."""
