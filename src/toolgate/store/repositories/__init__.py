"""Interfaces and values of the repositories. Contains no SQL."""
