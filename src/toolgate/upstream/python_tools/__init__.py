"""Python functions and packs, served like an upstream server."""
