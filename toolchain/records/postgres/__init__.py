"""Records of a team: a PostgreSQL server."""
