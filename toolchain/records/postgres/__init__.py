"""Records that a team shares on a PostgreSQL server."""
