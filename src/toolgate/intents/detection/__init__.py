"""From a message to its intent."""
