"""What the search learns from earlier requests."""
