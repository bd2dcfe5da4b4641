"""Making images."""
