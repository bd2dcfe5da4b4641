"""Makes images."""
