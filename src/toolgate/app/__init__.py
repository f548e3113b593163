"""What is wired to what: builders that turn settings into a running gateway."""
