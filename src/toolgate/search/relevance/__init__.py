"""Relevance: how likely a tool helps, and the cutoff below which nothing fits."""
