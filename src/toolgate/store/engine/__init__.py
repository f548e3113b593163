"""The database below the repositories: transactions, schema, files, backups, deadlines."""
