"""File formats, each read by a module of its own, in worker processes."""
