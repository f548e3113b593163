"""The audit log in SQL: records, searches, reports, and the chain of signatures."""
