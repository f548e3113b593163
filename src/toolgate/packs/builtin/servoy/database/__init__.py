"""Tables and columns, from definitions in the workspace or from connected databases."""
