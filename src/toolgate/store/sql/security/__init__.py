"""Access data, approvals, credentials and console sessions in SQL."""
