"""The values that a store keeps. Knows no SQL."""
