"""Records in a file: SQLite."""
