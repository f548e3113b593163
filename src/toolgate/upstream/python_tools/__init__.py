"""Python functions and packs served as if they were an upstream server."""
