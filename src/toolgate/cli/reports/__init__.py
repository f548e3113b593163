"""Commands that report on audit, cost and use."""
