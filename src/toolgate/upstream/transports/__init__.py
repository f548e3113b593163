"""Wires to upstream servers. One file per transport."""
