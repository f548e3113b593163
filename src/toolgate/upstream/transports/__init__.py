"""Transports to upstream servers, one file each."""
