"""Measuring candidates for each task, and remembering the best."""
