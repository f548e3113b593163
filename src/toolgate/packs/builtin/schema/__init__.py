"""The pack `schema`: what version a schema has, what changed in it, and what its types are."""
