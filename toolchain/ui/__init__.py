"""A page that shows boards and commands while they work. It listens on loopback only, behind a token."""
