"""Commands that report on audit, cost and usage."""
