"""Processes: the memory of the serving one, and workers beside it for work that may go wrong."""
