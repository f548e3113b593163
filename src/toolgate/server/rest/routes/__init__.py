"""Routes of the REST API: one module per topic, each with its `routes`."""
