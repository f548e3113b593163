"""What becomes of results before they are answered: filtered, formatted, cut into pages."""
