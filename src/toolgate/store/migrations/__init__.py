"""Migrations from one schema to the next, append-only; run by Alembic."""
