"""Read the arguments of a tool from a message."""
