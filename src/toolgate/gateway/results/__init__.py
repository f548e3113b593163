"""Processing of results before they are returned: filters, formats, pages."""
