"""What a database needs around its tables: files, schema version, backups, deadlines."""
