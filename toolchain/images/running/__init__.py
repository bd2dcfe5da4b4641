"""Running steps in images."""
