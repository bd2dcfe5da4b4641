"""Measuring candidates for the schedule of each task, and remembering the best."""
