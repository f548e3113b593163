"""Sessions of clients of the handshake era (2024-11-05 to 2025-11-25), and their fast path."""
