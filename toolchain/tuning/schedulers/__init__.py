"""Ways to share trials out among tasks."""
