"""Records in an SQLite file."""
