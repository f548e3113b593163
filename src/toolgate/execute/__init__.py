"""Running a call: arguments checked, large results paged."""
