"""The pages of the console. One file per page."""
