"""What earlier requests teach the search."""
