"""Reading dates and ranges of dates from a message."""
