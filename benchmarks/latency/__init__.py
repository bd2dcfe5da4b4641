"""Our CPU code against other inference engines, one process each, measured in alternating blocks."""
