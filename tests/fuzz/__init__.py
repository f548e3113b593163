"""Machine-made requests against a whole gateway, and the checks that its answers must pass."""
