"""Search by meaning: vectors of tools and requests."""
