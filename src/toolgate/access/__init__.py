"""One decision: may this caller see or use this."""
