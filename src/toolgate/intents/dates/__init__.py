"""Read dates and date ranges from a message."""
