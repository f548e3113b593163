"""The objects of solutions: relations, value lists and forms."""
